"""Random numbers in TF1's exact order.

``stream`` is a leaf of a session's state: (seed, seed2, offset in blocks). A draw is a pure function of that key, so it may be fused, recomputed
and batched, and is never folded. ``random_bits`` gives the words; uniform and normal numbers are elementwise functions of them (a truncated
normal redraws, and has a kernel of its own), a shuffle swaps by them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dtypes import DType, float32, float64, int32, int64, uint32, uint64
from ..errors import DTypeError, InvalidArgumentError, ShapeError
from ..ir.aval import Aval, Size, maximum, product
from ..ir.opdef import Control, Loops, NotDifferentiable, OpDef, define
from . import philox
from .composed import composed
from .elementwise import quiet
from .helpers import Sample, elementwise, move_axis

_NONE = NotDifferentiable("a random number does not depend on its key differentiably")
RESERVED = 256                               # blocks per output by which TF1 moves a stream on


def advance(count: Size) -> Size:
    """Blocks by which a draw of ``count`` numbers moves its stream on."""
    return count * RESERVED


def shuffle_advance(count: Size) -> Size:
    """Blocks by which a shuffle of ``count`` rows moves its stream on: those that it uses."""
    return (maximum(count - 1, 0) + 3) // 4


def _stream_vmap(b: Any, size: Size, ins: Any, dims: Any, *, uid: Any, seed: int, seed2: int, advance: Size) -> Any:
    # one stream for the whole batch, in which each lane has a stretch of its own
    key = b.stream(uid=uid, seed=seed, seed2=seed2, advance=advance * size)
    step = b.reshape(b.sizes(sizes=(0, 0, advance), dtype=int64), shape=(1, 3))
    lane = b.iota(shape=(size, 1), axis=0, dtype=int64)
    return b.add(b.mul(lane, step), key), 0


stream = define(OpDef("stream", lambda *, uid, seed, seed2, advance: Aval((3,), int64),
                      lambda *, uid, seed, seed2, advance: np.array([seed, seed2, 0], np.int64), _NONE, _NONE, _stream_vmap, Control("stream"),
                      lambda rng: [], traits=frozenset({"unmerged", "draw"}),
                      doc="The state (seed, seed2, offset) of random stream ``uid``, moved on by ``advance`` blocks after this use."))


# ---- words -------------------------------------------------------------------------------------------------------------------


def _bits_infer(key: Aval, *, count: Size) -> Aval:
    if key.dtype != int64 or key.ndim < 1 or key.shape[-1] != 3:
        raise ShapeError(f"a key must be i64[..., 3], got {key}")
    return Aval((*key.shape[:-1], count), uint32)


def _bits_ref(key: Any, *, count: int) -> Any:
    key = np.asarray(key)
    rows = [philox.words(np.arange(-(-count // 4)) + k[2], k[0], k[1]).reshape(-1)[:count] for k in key.reshape(-1, 3)]
    return np.array(rows, np.uint32).reshape((*key.shape[:-1], count))


PER_TASK = 1024                              # blocks


def _emit_bits(k: Any, out: Any, key: Any, *, count: Size) -> None:
    e, n = k.e, k.size(count)
    lanes = k.lanes(int64)
    pieces = k.size((count + (4 * PER_TASK - 1)) // (4 * PER_TASK))

    def task(t: Any) -> None:
        row, piece = k.div(t, pieces), k.mod(t, pieces)
        seeds = [key.load(k.add(k.mul(row, 3), j)) for j in range(3)]
        first = k.mul(piece, PER_TASK)
        words = k.min(k.sub(n, k.mul(first, 4)), 4 * PER_TASK)
        base = k.add(k.mul(row, n), k.mul(first, 4))

        def step(i: Any, _: Any) -> Any:
            block = e.add(e.add(seeds[2], k.index(first)), i)
            values = [e.cast(v, uint32) for v in philox.emit_words(e, philox.consecutive(e, block, lanes), seeds[:2])]
            philox.store_blocks(k, out, values, k.add(base, k.mul(i, 4)), k.sub(words, k.mul(i, 4)))
            return []
        e.loop(0, k.div(k.add(words, 3), 4), lanes, [], step)
    k.tasks(task)


def _rows_of(key: Aval) -> Size:
    return product(key.shape[:-1])


_KEYS = (np.array([0, 0, 0]), np.array([7, -3, 5]), np.array([[1, 2, 3], [4, 5, 2**33]]))
random_bits = define(OpDef(
    "random_bits", _bits_infer, _bits_ref, _NONE, _NONE,
    lambda b, size, ins, dims, *, count: (b.random_bits(move_axis(b, ins[0], dims[0], 0), count=count), 0),
    Loops(_emit_bits, tasks=lambda out, key, *, count: _rows_of(key) * ((count + (4 * PER_TASK - 1)) // (4 * PER_TASK))),
    lambda rng: [Sample((k,), {"count": c}, grad=False) for k in _KEYS for c in (0, 1, 4, 7, 33, 5000)],
    (((Aval((2,), int64),), {"count": 4}, "a key must be i64[..., 3]"),),
    doc="Words of the key's blocks from its offset on, four per block."))

bitcast = elementwise(
    "bitcast", lambda x, *, dtype: np.asarray(x).view(dtype.np), NotDifferentiable("the bits of a number are not differentiable"),
    lambda e, x, *, dtype: e.bitcast(x, dtype), kinds="fiu", infer=lambda x, *, dtype: _bitcast_infer(x, dtype), traits=("exact",),
    samples=lambda rng: [Sample((rng.normal(size=(5,)).astype("f4"),), {"dtype": uint32}, grad=False), Sample((rng.integers(0, 2**60, (3,)),), {"dtype": float64}, grad=False)],
    errors=(((Aval((3,), float32),), {"dtype": int64}, "bitcast of 32 bits"),), doc="The same bits as another dtype of the same width.")


def _bitcast_infer(x: Aval, dtype: DType) -> Aval:
    if x.dtype.bits != dtype.bits or x.dtype.is_bool or dtype.is_bool:
        raise DTypeError(f"bitcast of {x.dtype.bits} bits ({x.dtype.name}) to {dtype.name}")
    return Aval(x.shape, dtype)


# ---- numbers from words ------------------------------------------------------------------------------------------------------


def _uniform32(b: Any, words: Any) -> Any:
    """The low 23 bits as the mantissa of a number in [1, 2), less 1."""
    one = b.bitwise_or(b.bitwise_and(words, b.like(words, 0x7FFFFF)), b.like(words, 127 << 23))
    x = b.bitcast(one, dtype=float32)
    return b.sub(x, b.like(x, 1))


def _uniform64(b: Any, high: Any, low: Any) -> Any:
    """20 bits of one word and 32 of the next as the mantissa."""
    top = b.left_shift(b.cast(b.bitwise_and(high, b.like(high, 0xFFFFF)), dtype=uint64), b.const(np.uint64(32)))
    bits = b.bitwise_or(b.bitwise_or(top, b.cast(low, dtype=uint64)), b.const(np.uint64(1023 << 52)))
    x = b.bitcast(bits, dtype=float64)
    return b.sub(x, b.like(x, 1))


def _every(b: Any, x: Any, start: int, step: int, count: Size) -> Any:
    rank = len(x.aval.shape)
    return b.slice(x, starts=(*(0,) * (rank - 1), start), sizes=(*x.aval.shape[:-1], count), steps=(*(1,) * (rank - 1), step))


def _shaped(b: Any, flat: Any, key: Any, shape: Any, total: Size) -> Any:
    rank = len(flat.aval.shape)
    if flat.aval.shape[-1] != total:
        flat = b.slice(flat, starts=(0,) * rank, sizes=(*flat.aval.shape[:-1], total), steps=(1,) * rank)
    return b.reshape(flat, shape=(*key.aval.shape[:-1], *shape))


def _draw_infer(kinds: str) -> Any:
    def infer(key: Aval, *, shape: tuple[Size, ...], dtype: DType, **_: Any) -> Aval:
        _bits_infer(key, count=0)
        if dtype.kind not in kinds or (dtype.kind == "f" and dtype.bits < 32):
            raise DTypeError(f"random numbers of {dtype.name} are not available")
        return Aval((*key.shape[:-1], *shape), dtype)
    return infer


def _uniform_build(b: Any, key: Any, *, shape: Any, dtype: DType) -> Any:
    n = product(shape)
    if dtype == float32:
        return _shaped(b, _uniform32(b, b.random_bits(key, count=n)), key, shape, n)
    words = b.random_bits(key, count=n * 2)
    return _shaped(b, _uniform64(b, _every(b, words, 0, 2, n), _every(b, words, 1, 2, n)), key, shape, n)


def _draw_vmap(name: str) -> Any:
    return lambda b, size, ins, dims, **kw: (getattr(b, name)(move_axis(b, ins[0], dims[0], 0), **kw), 0)


def _draw_samples(dtypes: Any) -> Any:
    return lambda rng: [Sample((k,), {"shape": s, "dtype": d}, grad=False) for k in _KEYS for s in ((3, 5), (), (0, 2), (67,)) for d in dtypes]


def _draw(name: str, kinds: str, ref: Any, build: Any, dtypes: Any, doc: str) -> OpDef:
    return composed(name, _draw_infer(kinds), quiet(ref), build, _draw_samples(dtypes),
                    (((Aval((3,), int64),), {"shape": (2,), "dtype": int32 if kinds == "f" else float32}, "are not available"),), doc,
                    vjp=_NONE, jvp=_NONE, vmap=_draw_vmap(name))



def uniform_ref(key: Any, *, shape: Any, dtype: DType) -> Any:
    """The meaning of ``random_uniform``."""
    n = math.prod(shape)
    w = _bits_ref(key, count=n if dtype == float32 else 2 * n)
    flat = philox.uniform32(w) if dtype == float32 else philox.uniform64(w[..., 0::2], w[..., 1::2])
    return flat.reshape((*np.shape(key)[:-1], *shape))


random_uniform = _draw("random_uniform", "f", uniform_ref, _uniform_build, (float32, float64), "Uniform numbers in [0, 1).")


def _normal_build(b: Any, key: Any, *, shape: Any, dtype: DType) -> Any:
    n = product(shape)
    pairs = (n + 1) // 2
    if dtype == float32:
        words = b.random_bits(key, count=pairs * 2)
        u, v = (_uniform32(b, _every(b, words, j, 2, pairs)) for j in (0, 1))
    else:
        words = b.random_bits(key, count=pairs * 4)
        u, v = (_uniform64(b, _every(b, words, j, 4, pairs), _every(b, words, j + 1, 4, pairs)) for j in (0, 2))
    f, g = _box_muller(b, u, v)
    rank = len(f.aval.shape)
    both = b.reshape(b.stack(f, g, axis=rank), shape=(*key.aval.shape[:-1], pairs * 2))
    return _shaped(b, both, key, shape, n)


def _box_muller(b: Any, u: Any, v: Any) -> tuple[Any, Any]:
    angle = b.turn(v)
    r = b.sqrt(b.mul(b.log(b.maximum(u, b.like(u, 1e-7))), b.like(u, -2)))
    return b.mul(b.sin(angle), r), b.mul(b.cos(angle), r)


def _emit_turn(e: Any, x: Any) -> Any:
    # the correction of the rounded product is left out where it is no number, or a zero of the other sign
    small = e.abs(e.mul(x, float(np.float32(1e-7))))
    usual = e.and_(e.cmp("gt", small, 0), e.cmp("lt", small, float("inf")))
    return e.select(usual, philox.emit_turn(e, x), e.mul(x, 2 * math.pi))


turn = elementwise("turn", quiet(lambda x: (2 * np.pi * np.asarray(x).astype(np.float64)).astype(np.asarray(x).dtype)), lambda b, y, x: [2 * math.pi],
                   lambda e, x: _emit_turn(e, x), more=lambda rng: [Sample((rng.random(300, np.float32),), grad=False)], doc="2 pi x, rounded once (float32 as if by way of float64, as TF1 has it).")


def normal_ref(key: Any, *, shape: Any, dtype: DType) -> Any:
    """The meaning of ``random_normal``."""
    n, per_block = math.prod(shape), 4 if dtype == float32 else 2
    w = _bits_ref(key, count=-(-n // per_block) * 4)
    return philox.normals(w, dtype)[..., :n].reshape((*np.shape(key)[:-1], *shape))


random_normal = _draw("random_normal", "f", normal_ref, _normal_build, (float32, float64),
                      "Standard normal numbers (Box and Muller, 1958), pairs of words in order.")


def _int_infer(key: Aval, lo: Aval, hi: Aval, *, shape: tuple[Size, ...], dtype: DType) -> Aval:
    _bits_infer(key, count=0)
    if dtype not in (int32, int64) or lo.dtype != dtype or hi.dtype != dtype or lo.shape or hi.shape:
        raise DTypeError(f"random integers need scalar bounds of {dtype.name}, got {lo} and {hi}")
    return Aval((*key.shape[:-1], *shape), dtype)


def _int_build(b: Any, key: Any, lo: Any, hi: Any, *, shape: Any, dtype: DType) -> Any:
    n = product(shape)
    wide = uint32 if dtype == int32 else uint64
    span = b.bitcast(b.sub(hi, lo), dtype=wide)
    if n != 0:
        span = b.guard(span, b.less(lo, hi), message="Need minval < maxval, got the range {a}", limit=0, fill=1)
    if dtype == int32:
        words = b.random_bits(key, count=n)
    else:
        pairs = b.random_bits(key, count=n * 2)
        low, high = (b.cast(_every(b, pairs, j, 2, n), dtype=uint64) for j in (0, 1))
        words = b.bitwise_or(low, b.left_shift(high, b.const(np.uint64(32))))
    picked = b.bitcast(b.floormod_total(words, span), dtype=dtype)
    return _shaped(b, b.add(picked, lo), key, shape, n)


def _int_ref(key: Any, lo: Any, hi: Any, *, shape: Any, dtype: DType) -> Any:
    key = np.asarray(key)
    n = math.prod(shape)
    if n and lo >= hi:
        raise InvalidArgumentError(None, None, f"Need minval < maxval, got {lo} >= {hi}")
    span = (np.asarray(hi) - np.asarray(lo)).astype(dtype.np)
    bits = _bits_ref(key, count=n if dtype == int32 else 2 * n)
    if dtype == int32:
        picked = (bits % span.view(np.uint32)).view(np.int32)
    else:
        words = bits.astype(np.uint64)
        picked = ((words[..., 0::2] | words[..., 1::2] << np.uint64(32)) % span.view(np.uint64)).view(np.int64)
    return (picked + lo).reshape((*key.shape[:-1], *shape)).astype(dtype.np)


random_uniform_int = composed(
    "random_uniform_int", _int_infer, quiet(_int_ref), _int_build,
    lambda rng: [Sample((_KEYS[1], d.np.type(lo), d.np.type(hi)), {"shape": s, "dtype": d}, grad=False) for d in (int32, int64)
                 for s, lo, hi in (((3, 5), -3, 10), ((), 0, 1), ((0,), 5, 5), ((70,), np.iinfo(d.np).min, np.iinfo(d.np).max), ((9,), 0, 2**31 - 1))],
    (((Aval((3,), int64), Aval((), int32), Aval((), int64)), {"shape": (2,), "dtype": int32}, "need scalar bounds"),),
    "Integers in [lo, hi): lo + word mod (hi - lo); an empty range fails the run.", vjp=_NONE, jvp=_NONE,
    vmap=lambda b, size, ins, dims, **kw: b.vmap_of(lambda c, *vs: _int_build(c, *vs, **kw), size, ins, dims))


# ---- truncated normal ----------------------------------------------------------------------------------------------------------

GROUPS = 64                                  # groups of numbers in a task


def _group(dtype: DType) -> int:
    """Numbers that a block gives; a group of as many starts RESERVED / 4 blocks a number after the one before."""
    return 4 if dtype == float32 else 2


def _truncated_ref(key: Any, *, shape: Any, dtype: DType) -> Any:
    key, n, q = np.asarray(key), math.prod(shape), _group(dtype)
    rows = []
    for seed, seed2, offset in key.reshape(-1, 3):
        out = np.zeros((-(-n // q), q), dtype.np)
        found = np.zeros(len(out), np.int64)
        start = offset + np.arange(len(out)) * (q * RESERVED // 4)
        while (found < q).any():
            waiting = np.flatnonzero(found < q)
            for z in philox.normals(philox.words(start[waiting], seed, seed2), dtype).T:
                taken = waiting[(np.abs(z) < 2) & (found[waiting] < q)]
                out[taken, found[taken]] = z[(np.abs(z) < 2) & (found[waiting] < q)]
                found[taken] += 1
            start += 1
        rows.append(out.reshape(-1)[:n])
    return np.array(rows, dtype.np).reshape((*key.shape[:-1], *shape))


def _emit_truncated(k: Any, out: Any, key: Any, *, shape: Any, dtype: DType) -> None:
    # a lane per group: blocks are drawn until each lane has its numbers; nearly always two
    e, n, q = k.e, k.size(product(shape)), _group(dtype)
    lanes, counter = k.lanes(dtype), int32 if dtype == float32 else int64
    pieces = k.size((product(shape) + (q * GROUPS - 1)) // (q * GROUPS))

    def task(t: Any) -> None:
        row, piece = k.div(t, pieces), k.mod(t, pieces)
        seeds = [key.load(k.add(k.mul(row, 3), j)) for j in range(3)]
        first = k.mul(piece, GROUPS)
        here = k.min(k.sub(n, k.mul(first, q)), q * GROUPS)

        def step(i: Any, _: Any) -> Any:
            start = e.add(seeds[2], k.index(k.mul(k.add(first, i), q * RESERVED // 4)))
            zero, none = e.const(counter, 0, lanes), e.const(dtype, 0, lanes)

            def draw(v: Any) -> Any:
                found, block, *slots = v
                for z in philox.emit_normals(e, philox.emit_words(e, block, seeds[:2]), dtype):
                    take = e.cmp("lt", e.abs(z), 2)
                    slots = [e.select(e.and_(take, e.cmp("eq", found, j)), z, s) for j, s in enumerate(slots)]
                    found = e.add(found, e.cast(take, counter))
                return [found, e.add(block, 1), *slots]
            at = philox.consecutive(e, start, lanes, q * RESERVED // 4)
            _, _, *slots = e.while_([zero, at, *[none] * q], lambda v: e.any(e.cmp("lt", v[0], q)), draw)
            done = k.mul(i, q)
            philox.store_blocks(k, out, slots, k.add(k.add(k.mul(row, n), k.mul(first, q)), done), k.sub(here, done))
            return []
        e.loop(0, k.div(k.add(here, q - 1), q), lanes, [], step)
    k.tasks(task)


truncated_normal = define(OpDef(
    "truncated_normal", _draw_infer("f"), quiet(_truncated_ref), _NONE, _NONE, _draw_vmap("truncated_normal"),
    Loops(_emit_truncated, tasks=lambda out, key, *, shape, dtype: _rows_of(key) * (
        (product(shape) + (_group(dtype) * GROUPS - 1)) // (_group(dtype) * GROUPS))),
    lambda rng: [*_draw_samples((float32, float64))(rng), Sample((_KEYS[1],), {"shape": (3001,), "dtype": float32}, grad=False)],
    (((Aval((3,), int64),), {"shape": (2,), "dtype": int32}, "are not available"),),
    doc="Standard normal numbers with |z| < 2: groups of four (two in float64) draw blocks of their own until they are full."))


# ---- shuffle -------------------------------------------------------------------------------------------------------------------


def _permutation_infer(words: Aval, *, count: Size) -> Aval:
    if words.dtype != uint32 or words.ndim < 1 or words.shape[-1] != maximum(count - 1, 0):
        raise ShapeError(f"a permutation of {count!r} is made of u32[..., {maximum(count - 1, 0)!r}], got {words}")
    return Aval((*words.shape[:-1], count), int64)


def _permutation_ref(words: Any, *, count: int) -> Any:
    words = np.asarray(words)
    out = np.tile(np.arange(count), (math.prod(words.shape[:-1]), 1))
    for row, w in zip(out, words.reshape(len(out), max(count - 1, 0))):
        for i, word in enumerate(w.tolist()):
            j = i + word % (count - i)
            row[i], row[j] = row[j], row[i]
    return out.reshape((*words.shape[:-1], count))


def _emit_permutation(k: Any, out: Any, words: Any, *, count: Size) -> None:
    e, n, m = k.e, k.size(count), k.size(maximum(count - 1, 0))

    def task(t: Any) -> None:
        base = k.mul(t, n)
        k.range(n, lambda i: out.store(i, k.add(base, i)))

        def swap(i: Any) -> None:
            word = e.cast(words.load(k.add(k.mul(t, m), i)), int64)
            j = k.add(i, k.mod(word, k.sub(n, i)))
            here, there = out.load(k.add(base, i)), out.load(k.add(base, j))
            out.store(here, k.add(base, j))
            out.store(there, k.add(base, i))
        k.range(m, swap)
    k.tasks(task)


permutation = define(OpDef(
    "permutation", _permutation_infer, _permutation_ref, _NONE, _NONE,
    lambda b, size, ins, dims, *, count: (b.permutation(move_axis(b, ins[0], dims[0], 0), count=count), 0),
    Loops(_emit_permutation, tasks=lambda out, words, *, count: product(words.shape[:-1])),
    lambda rng: [Sample((rng.integers(0, 2**32, (*lead, max(c - 1, 0))).astype(np.uint32),), {"count": c}, grad=False)
                 for lead in ((), (3,)) for c in (0, 1, 2, 7, 100)],
    (((Aval((4,), uint32),), {"count": 4}, "a permutation of 4 is made of u32[..., 3]"),),
    doc="0 .. count-1 shuffled by Fisher and Yates' method from the front: i changes places with i + word mod (count - i)."))


def _shuffle_infer(key: Aval, *, count: Size) -> Aval:
    return _bits_infer(key, count=count).with_dtype(int64)


random_shuffle = composed(
    "random_shuffle", _shuffle_infer, lambda key, *, count: _permutation_ref(_bits_ref(key, count=max(count - 1, 0)), count=count),
    lambda b, key, *, count: b.permutation(b.random_bits(key, count=maximum(count - 1, 0)), count=count),
    lambda rng: [Sample((k,), {"count": c}, grad=False) for k in _KEYS for c in (0, 1, 10, 33)],
    (((Aval((2,), int64),), {"count": 4}, "a key must be i64[..., 3]"),),
    "A random permutation of 0 .. count-1, in TF1's order.", vjp=_NONE, jvp=_NONE, vmap=_draw_vmap("random_shuffle"))
