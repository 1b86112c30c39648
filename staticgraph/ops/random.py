"""Random numbers: Philox4x32-10 (Salmon et al., 2011) in TF1's exact order.

``stream`` is a leaf of a session's state: (seed, seed2, offset in blocks). A draw is a pure function of that key, so it may be fused, recomputed
and batched, and is never folded. ``random_bits`` is the only generator; uniform and normal numbers are elementwise functions of its words
(a truncated normal redraws, and has a kernel of its own).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import DType, float32, float64, int32, int64, uint32, uint64
from ..errors import DTypeError, ShapeError
from ..ir.aval import Aval, Size, product
from ..ir.opdef import Control, Loops, NotDifferentiable, OpDef, define
from .composed import composed
from .elementwise import quiet
from .helpers import Sample, elementwise, move_axis

_NONE = NotDifferentiable("a random number does not depend on its key differentiably")
_M0, _M1, _W0, _W1 = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85
RESERVED = 256                               # blocks per output by which TF1 moves a stream on


def _stream_vmap(b: Any, size: Size, ins: Any, dims: Any, *, uid: Any, seed: int, seed2: int, advance: Size) -> Any:
    key = b.stream(uid=uid, seed=seed, seed2=seed2, advance=advance * size)
    step = b.reshape(b.sizes(sizes=(0, 0, advance), dtype=int64), shape=(1, 3))
    lane = b.iota(shape=(size, 1), axis=0, dtype=int64)
    return b.add(b.mul(lane, step), key), 0


stream = define(OpDef("stream", lambda *, uid, seed, seed2, advance: Aval((3,), int64),
                      lambda *, uid, seed, seed2, advance: np.array([seed, seed2, 0], np.int64), _NONE, _NONE, _stream_vmap, Control("stream"),
                      lambda rng: [], traits=frozenset({"unmerged", "draw"}),
                      doc="The state (seed, seed2, offset) of random stream ``uid``, moved on by ``advance`` blocks after this use."))


def philox(blocks: Any, seed: Any, seed2: Any) -> np.ndarray[Any, Any]:
    """uint32[n, 4]: the words of the given counter blocks."""
    blocks = np.asarray(blocks).astype(np.uint64)
    low, high = np.uint64(0xFFFFFFFF), np.uint64(32)
    s, s2 = (np.int64(v).astype(np.uint64) for v in (seed, seed2))
    c = [blocks & low, blocks >> high, np.broadcast_to(s2 & low, blocks.shape), np.broadcast_to(s2 >> high, blocks.shape)]
    k0, k1 = s & low, s >> high
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(_M0), c[2] * np.uint64(_M1)
        c = [(p1 >> high) ^ c[1] ^ k0, p1 & low, (p0 >> high) ^ c[3] ^ k1, p0 & low]
        k0, k1 = (k0 + np.uint64(_W0)) & low, (k1 + np.uint64(_W1)) & low
    return np.stack(c, -1).astype(np.uint32)


def _bits_infer(key: Aval, *, count: Size) -> Aval:
    if key.dtype != int64 or key.ndim < 1 or key.shape[-1] != 3:
        raise ShapeError(f"a key must be i64[..., 3], got {key}")
    return Aval((*key.shape[:-1], count), uint32)


def _bits_ref(key: Any, *, count: int) -> Any:
    key = np.asarray(key)
    rows = [philox(np.arange(-(-count // 4)) + k[2], k[0], k[1]).reshape(-1)[:count] for k in key.reshape(-1, 3)]
    return np.array(rows, np.uint32).reshape((*key.shape[:-1], count))


PER_TASK = 1024                              # blocks


def _philox_words(e: Any, block: Any, key: list[Any], lanes: int) -> list[Any]:
    """The four words (as u64 lanes) of the blocks ``block + 0 .. lanes-1``."""
    from ..dtypes import uint64
    at = e.bitcast(e.add(e.splat(block, lanes), e.iota(int64, lanes)) if lanes > 1 else block, uint64)

    def half(x: Any, upper: bool) -> Any:
        return e.shr(x, 32) if upper else e.and_(x, 0xFFFFFFFF)
    seed, seed2 = (e.splat(e.bitcast(k, uint64), lanes) for k in key)
    c = [half(at, False), half(at, True), half(seed2, False), half(seed2, True)]
    k0, k1 = half(seed, False), half(seed, True)
    for r in range(10):
        p0, p1 = e.mul(c[0], _M0), e.mul(c[2], _M1)
        c = [e.xor(e.xor(half(p1, True), c[1]), k0), half(p1, False), e.xor(e.xor(half(p0, True), c[3]), k1), half(p0, False)]
        if r < 9:
            k0, k1 = half(e.add(k0, _W0), False), half(e.add(k1, _W1), False)
    return c


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
            c = [e.cast(v, uint32) for v in _philox_words(e, e.add(e.add(seeds[2], k.index(first)), i), seeds[:2], lanes)]
            left = k.sub(words, k.mul(i, 4))
            if lanes == 1:
                for j, v in enumerate(c):
                    out.store(v, k.add(base, k.add(k.mul(i, 4), j)), mask=e.cmp("gt", k.index(left), j))
                return []
            zipped = [e.shuffle(c[2 * q], c[2 * q + 1], [v for j in range(lanes) for v in (j, lanes + j)]) for q in (0, 1)]
            for h in (0, 1):
                picks = [v for j in range(h * lanes // 2, (h + 1) * lanes // 2) for v in (2 * j, 2 * j + 1, 2 * lanes + 2 * j, 2 * lanes + 2 * j + 1)]
                part = e.shuffle(zipped[0], zipped[1], picks)
                out.store(part, k.add(base, k.add(k.mul(i, 4), h * 2 * lanes)), mask=e.mask(k.sub(left, h * 2 * lanes), 2 * lanes))
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


def _evaluated(build: Any) -> Any:
    """The NumPy meaning of a draw: its own composition, interpreted."""
    def ref(key: Any, **attrs: Any) -> Any:
        from ..ir.builder import GraphBuilder
        from ..ir.evaluate import evaluate
        from ..ir.graph import Graph
        g = Graph()
        b = GraphBuilder(g)
        key = np.asarray(key)
        p = b.param(aval=Aval(key.shape, int64), index=0)
        return evaluate([build(b, p, **attrs)], {p: key})[0]
    return ref


def _signed(ref: Any) -> Any:
    """``ref`` with the signature of a draw."""
    return lambda key, *, shape, dtype: ref(key, shape=shape, dtype=dtype)


def _draw_vmap(name: str) -> Any:
    return lambda b, size, ins, dims, **kw: (getattr(b, name)(move_axis(b, ins[0], dims[0], 0), **kw), 0)


def _draw_samples(dtypes: Any) -> Any:
    return lambda rng: [Sample((k,), {"shape": s, "dtype": d}, grad=False) for k in _KEYS for s in ((3, 5), (), (0, 2), (67,)) for d in dtypes]


def _draw(name: str, kinds: str, build: Any, dtypes: Any, doc: str) -> OpDef:
    return composed(name, _draw_infer(kinds), _signed(_evaluated(build)), build, _draw_samples(dtypes),
                    (((Aval((3,), int64),), {"shape": (2,), "dtype": int32 if kinds == "f" else float32}, "are not available"),), doc,
                    vjp=_NONE, jvp=_NONE, vmap=_draw_vmap(name))


uniform_ref = _signed(_evaluated(_uniform_build))
random_uniform = _draw("random_uniform", "f", _uniform_build, (float32, float64), "Uniform numbers in [0, 1).")


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
    angle = b.mul(v, b.like(v, 2 * np.pi))
    r = b.sqrt(b.mul(b.log(b.maximum(u, b.like(u, 1e-7))), b.like(u, -2)))
    return b.mul(b.sin(angle), r), b.mul(b.cos(angle), r)


random_normal = _draw("random_normal", "f", quiet(_normal_build), (float32, float64), "Standard normal numbers (Box and Muller, 1958), pairs of words in order.")


def _int_infer(key: Aval, lo: Aval, hi: Aval, *, shape: tuple[Size, ...], dtype: DType) -> Aval:
    _bits_infer(key, count=0)
    if dtype not in (int32, int64) or lo.dtype != dtype or hi.dtype != dtype or lo.shape or hi.shape:
        raise DTypeError(f"random integers need scalar bounds of {dtype.name}, got {lo} and {hi}")
    return Aval((*key.shape[:-1], *shape), dtype)


def _int_build(b: Any, key: Any, lo: Any, hi: Any, *, shape: Any, dtype: DType) -> Any:
    n = product(shape)
    wide = uint32 if dtype == int32 else uint64
    span = b.bitcast(b.sub(hi, lo), dtype=wide)
    if dtype == int32:
        words = b.random_bits(key, count=n)
    else:
        pairs = b.random_bits(key, count=n * 2)
        low, high = (b.cast(_every(b, pairs, j, 2, n), dtype=uint64) for j in (0, 1))
        words = b.bitwise_or(low, b.left_shift(high, b.const(np.uint64(32))))
    picked = b.bitcast(b.floormod(words, span), dtype=dtype)
    return _shaped(b, b.add(picked, lo), key, shape, n)


def _int_ref(key: Any, lo: Any, hi: Any, *, shape: Any, dtype: DType) -> Any:
    key = np.asarray(key)
    n = int(np.prod(shape))
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
    lambda rng: [Sample((_KEYS[1], d.np.type(-3), d.np.type(10)), {"shape": (3, 5), "dtype": d}, grad=False) for d in (int32, int64)],
    (((Aval((3,), int64), Aval((), int32), Aval((), int64)), {"shape": (2,), "dtype": int32}, "need scalar bounds"),),
    "Integers in [lo, hi): lo + word mod (hi - lo).", vjp=_NONE, jvp=_NONE,
    vmap=lambda b, size, ins, dims, **kw: b.vmap_of(lambda c, *vs: _int_build(c, *vs, **kw), size, ins, dims))


# ---- truncated normal ----------------------------------------------------------------------------------------------------------


def _truncated_infer(key: Aval, *, shape: tuple[Size, ...], dtype: DType) -> Aval:
    out: Aval = _draw_infer("f")(key, shape=shape, dtype=dtype)
    if dtype != float32:
        raise DTypeError("truncated normals of float64 are not available")
    return out


def _truncated_ref(key: Any, *, shape: Any, dtype: DType) -> Any:
    key = np.asarray(key)
    n = int(np.prod(shape))
    rows = []
    for seed, seed2, offset in key.reshape(-1, 3):
        out = np.zeros(-(-n // 4) * 4, np.float32)
        for group in range(-(-n // 4)):
            found, block = 0, offset + RESERVED * group
            while found < 4:
                w = philox(np.array([block]), seed, seed2)[0]
                block += 1
                u = ((w & 0x7FFFFF) | (127 << 23)).view(np.float32) - np.float32(1)
                for a, c in ((u[0], u[1]), (u[2], u[3])):
                    r = np.sqrt(np.float32(-2) * np.log(max(a, np.float32(1e-7))))
                    angle = np.float32(2 * np.pi) * c
                    for z in (np.sin(angle) * r, np.cos(angle) * r):
                        if abs(z) < 2 and found < 4:
                            out[4 * group + found] = z
                            found += 1
        rows.append(out[:n])
    return np.array(rows, np.float32).reshape((*key.shape[:-1], *shape))


def _emit_truncated(k: Any, out: Any, key: Any, *, shape: Any, dtype: DType) -> None:
    e, n = k.e, k.size(product(shape))
    groups = k.size((product(shape) + 3) // 4)

    def uniform(word: Any) -> Any:
        return e.sub(e.bitcast(e.or_(e.and_(e.cast(word, uint32), 0x7FFFFF), 127 << 23), float32), 1)

    def task(t: Any) -> None:
        row, group = k.div(t, groups), k.mod(t, groups)
        seeds = [key.load(k.add(k.mul(row, 3), j)) for j in range(3)]
        base = k.add(k.mul(row, n), k.mul(group, 4))
        room = k.index(k.sub(n, k.mul(group, 4)))
        start = e.add(seeds[2], k.index(k.mul(group, RESERVED)))

        def draw(v: Any) -> Any:
            found, block = v
            u = [uniform(w) for w in _philox_words(e, block, seeds[:2], 1)]
            for a, c in ((u[0], u[1]), (u[2], u[3])):
                r = e.sqrt(e.mul(e.log(e.maximum(a, 1e-7)), -2))
                angle = e.mul(c, float(np.float32(2 * np.pi)))
                for z in (e.mul(e.sin(angle), r), e.mul(e.cos(angle), r)):
                    take = e.and_(e.cmp("lt", e.abs(z), 2), e.cmp("lt", found, 4))
                    e.if_(e.and_(take, e.cmp("lt", found, room)), lambda z=z, found=found: (out.store(z, k.add(base, found)), [])[1])
                    found = e.add(found, e.cast(take, int64))
            return [found, e.add(block, 1)]
        e.while_([e.const(int64, 0), start], lambda v: e.cmp("lt", v[0], 4), draw)
    k.tasks(task)


truncated_normal = define(OpDef(
    "truncated_normal", _truncated_infer, quiet(_truncated_ref), _NONE, _NONE, _draw_vmap("truncated_normal"),
    Loops(_emit_truncated, tasks=lambda out, key, *, shape, dtype: _rows_of(key) * ((product(shape) + 3) // 4)),
    _draw_samples((float32,)), (((Aval((3,), int64),), {"shape": (2,), "dtype": float64}, "are not available"),),
    doc="Standard normal numbers with |z| < 2: groups of four start 256 blocks apart and redraw."))

