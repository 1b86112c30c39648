"""The Philox4x32-10 generator (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011) in TF1's arrangement,
and numbers made of its words: once in NumPy, once as machine code.

TF1's arrangement: the key is the two halves of ``seed``, the upper half of the counter those of ``seed2``, the lower half the block's number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..dtypes import DType, float32, float64, int64, uint32, uint64

_M0, _M1, _W0, _W1 = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85
_LEAST = 1e-7                                # what the logarithm of a normal number is spared
_TURN = 2 * np.pi

# ---- in NumPy --------------------------------------------------------------------------------------------------------------------


def words(blocks: Any, seed: Any, seed2: Any) -> np.ndarray[Any, Any]:
    """uint32[..., 4]: the words of the given counter blocks."""
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


def uniform32(w: Any) -> Any:
    """Numbers in [0, 1): the low 23 bits of a word as the mantissa of a number in [1, 2), less 1."""
    return (w & np.uint32(0x7FFFFF) | np.uint32(127 << 23)).view(np.float32) - np.float32(1)


def uniform64(w: Any, w2: Any) -> Any:
    """The same in float64: 20 bits of one word above the 32 of the next."""
    top = (w & np.uint32(0xFFFFF)).astype(np.uint64) << np.uint64(32)
    return (top | w2.astype(np.uint64) | np.uint64(1023 << 52)).view(np.float64) - 1


def box_muller(u: Any, v: Any) -> tuple[Any, Any]:
    """Two normal numbers of two uniform ones (Box and Muller, 1958); 2 pi v is rounded once."""
    angle = (_TURN * v.astype(np.float64)).astype(v.dtype)
    r = np.sqrt(np.log(np.maximum(u, u.dtype.type(_LEAST))) * u.dtype.type(-2))
    return np.sin(angle) * r, np.cos(angle) * r


def normals(w: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """The normal numbers of words [..., 4 k]: four of four words in float32, two in float64."""
    if dtype == float32:
        pair = box_muller(uniform32(w[..., 0::2]), uniform32(w[..., 1::2]))
    else:
        pair = box_muller(uniform64(w[..., 0::4], w[..., 1::4]), uniform64(w[..., 2::4], w[..., 3::4]))
    both = np.stack(pair, -1)
    return both.reshape((*both.shape[:-2], -1))


# ---- as machine code: ``e`` is an emitter ------------------------------------------------------------------------------------------


def emit_words(e: Any, block: Any, seeds: Sequence[Any]) -> list[Any]:
    """The four words of the counter blocks in the lanes of ``block`` (i64), each in a lane of u64."""
    at, lanes = e.bitcast(block, uint64), block.lanes

    def half(x: Any, upper: bool) -> Any:
        return e.shr(x, 32) if upper else e.and_(x, 0xFFFFFFFF)
    seed, seed2 = (e.splat(e.bitcast(k, uint64), lanes) for k in seeds)
    c = [half(at, False), half(at, True), half(seed2, False), half(seed2, True)]
    k0, k1 = half(seed, False), half(seed, True)
    for r in range(10):
        p0, p1 = e.mul(c[0], _M0), e.mul(c[2], _M1)
        c = [e.xor(e.xor(half(p1, True), c[1]), k0), half(p1, False), e.xor(e.xor(half(p0, True), c[3]), k1), half(p0, False)]
        if r < 9:
            k0, k1 = half(e.add(k0, _W0), False), half(e.add(k1, _W1), False)
    return c


def consecutive(e: Any, first: Any, lanes: int, step: int = 1) -> Any:
    """first, first + step, ... as i64 lanes."""
    return first if lanes == 1 else e.add(e.splat(first, lanes), e.mul(e.iota(int64, lanes), step))


def emit_uniform32(e: Any, word: Any) -> Any:
    """``uniform32`` of a word in a u64."""
    return e.sub(e.bitcast(e.or_(e.and_(e.cast(word, uint32), 0x7FFFFF), 127 << 23), float32), 1)


def emit_uniform64(e: Any, word: Any, word2: Any) -> Any:
    """``uniform64`` of two words in u64s."""
    return e.sub(e.bitcast(e.or_(e.or_(e.shl(e.and_(word, 0xFFFFF), 32), word2), 1023 << 52), float64), 1)


def emit_turn(e: Any, v: Any) -> Any:
    """2 pi v as if computed in float64 and rounded once (for float32: checked for all 2**23 numbers that ``uniform32`` can give)."""
    if v.dtype == float64:
        return e.mul(v, _TURN)
    high = float(np.float32(_TURN))
    return e.fma(v, high, e.mul(v, float(np.float32(_TURN - high))))


def emit_normals(e: Any, w: Sequence[Any], dtype: DType) -> list[Any]:
    """The normal numbers of a block: four in float32, two in float64."""
    if dtype == float32:
        u = [emit_uniform32(e, x) for x in w]
    else:
        u = [emit_uniform64(e, w[0], w[1]), emit_uniform64(e, w[2], w[3])]
    out = []
    for a, v in zip(u[0::2], u[1::2]):
        r = e.sqrt(e.mul(e.log(e.maximum(a, _LEAST)), -2))
        angle = emit_turn(e, v)
        out += [e.mul(e.sin(angle), r), e.mul(e.cos(angle), r)]
    return out


def store_blocks(k: Any, out: Any, values: Sequence[Any], at: Any, left: Any) -> None:
    """Store 2 or 4 vectors whose lane b holds values of block b: block after block from ``at`` on, at most ``left`` of them."""
    e, lanes, q = k.e, values[0].lanes, len(values)
    if lanes == 1:
        for j, v in enumerate(values):
            out.store(v, k.add(at, j), mask=e.cmp("gt", k.index(left), j))
        return
    parts = [e.shuffle(values[2 * h], values[2 * h + 1], [v for j in range(lanes) for v in (j, lanes + j)]) for h in range(q // 2)]
    if q == 4:
        parts = [e.shuffle(parts[0], parts[1], [v for j in range(h * lanes // 2, (h + 1) * lanes // 2)
                                                for v in (2 * j, 2 * j + 1, 2 * lanes + 2 * j, 2 * lanes + 2 * j + 1)]) for h in (0, 1)]
    for h, part in enumerate(parts):
        out.store(part, k.add(at, h * part.lanes), mask=e.mask(k.sub(left, h * part.lanes), part.lanes))
