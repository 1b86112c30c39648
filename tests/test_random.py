"""Random draws: Philox's published words, TF1's published numbers, a model of TF1's kernels in plain Python, and what a stream promises."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import count as count_from

import numpy as np
import pytest
from native import Case, native

import staticgraph as sg
from staticgraph import errors
from staticgraph.config import Config
from staticgraph.dtypes import float32, float64, int32, int64
from staticgraph.ops import philox
from staticgraph.ops.random import RESERVED, advance, shuffle_advance
from staticgraph.runtime.state import StateStore

KEY = np.array([87654321, 7, 3])
LOW, HIGH = (1 << 32) - 1, 1 << 32

# Random123's kat_vectors for philox4x32 with 10 rounds: counter, key, words
KNOWN = [((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
         ((LOW,) * 4, (LOW,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
         ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0), (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1))]


def signed(low: int, high: int) -> int:
    """Two words as an int64."""
    value = low | high << 32
    return value - (1 << 64) if value >> 63 else value


@pytest.mark.parametrize("counter, key, words", KNOWN)
def test_philox_gives_the_published_words(counter, key, words):
    seed, seed2, block = signed(*key), signed(*counter[2:]), signed(*counter[:2])
    assert tuple(philox.words(np.array([block]), seed, seed2)[0]) == words
    got = native(lambda b, k: b.random_bits(k, count=4), np.array([seed, seed2, block]))
    assert tuple(got) == words


# ---- numbers that TensorFlow 1 programs have printed (widely published), as text of its own precision ------------------------------


def test_normals_are_tensorflows():
    # tf.random_normal([2, 5], seed=1)
    want = [-0.8113182, 1.4845988, 0.06532937, -2.4427042, 0.0992484, 0.5912243, 0.59282297, -2.1229296, -0.72289723, -0.05627038]
    got = native(lambda b, k: b.random_normal(k, shape=(2, 5), dtype=float32), np.array([87654321, 1, 0]))
    assert np.abs(got.ravel() - want).max() < 2.5e-7
    with sg.Graph().as_default(), sg.Session() as s:
        assert np.array_equal(s.run(sg.random_normal([2, 5], seed=1)), got)


def test_uniforms_are_tensorflows():
    # tf.random_uniform([2, 3], seed=1) and tf.random_uniform([2, 3], 5, 10, seed=7)
    got = native(lambda b, k: b.random_uniform(k, shape=(6,), dtype=float32), np.array([87654321, 1, 0]))
    assert np.abs(got - np.array([0.23903739, 0.92039955, 0.05051243, 0.49574447, 0.83552229, 0.02647042])).max() < 6e-9
    with sg.Graph().as_default(), sg.Session() as s:
        want = np.float32([[7.41970491, 7.5310154, 6.27571869], [5.62371159, 9.66505051, 8.32304668]])
        assert np.array_equal(s.run(sg.random_uniform([2, 3], 5, 10, seed=7)), want)


def test_a_shuffle_is_tensorflows():
    # tf.random.set_seed(123456); tf.random.shuffle([1, 2, 3, 4, 5, 6], seed=567436)
    with sg.Graph().as_default(), sg.Session() as s:
        sg.set_random_seed(123456)
        assert list(s.run(sg.random_shuffle(sg.constant([1, 2, 3, 4, 5, 6]), seed=567436))) == [6, 4, 2, 1, 5, 3]


# ---- a model of TF1's kernels: Python's integers and doubles, one word at a time ----------------------------------------------------


def block_words(seed: int, seed2: int, block: int) -> list[int]:
    """One block by the definition of Philox4x32-10."""
    c = [block & LOW, block >> 32 & LOW, seed2 & LOW, seed2 >> 32 & LOW]
    k = [seed & LOW, seed >> 32 & LOW]
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [q >> 32 ^ c[1] ^ k[0], q & LOW, p >> 32 ^ c[3] ^ k[1], p & LOW]
        k = [(k[0] + 0x9E3779B9) % HIGH, (k[1] + 0xBB67AE85) % HIGH]
    return c


def word_stream(key: np.ndarray, start: int = 0) -> Iterator[int]:
    """Words in order from block ``start`` after the key's offset."""
    seed, seed2, offset = (int(v) for v in key)
    return (w for block in count_from(offset + start) for w in block_words(seed, seed2, block))


def uniform(words: Iterator[int], dtype: np.dtype) -> float:
    """A number in [0, 1)."""
    if dtype == np.float32:
        return (next(words) & 0x7FFFFF) / 2**23
    high = next(words) & 0xFFFFF
    return (high << 32 | next(words)) / 2**52


def pair(words: Iterator[int], dtype: np.dtype) -> list[float]:
    """Box and Muller's two numbers, in double precision."""
    u, v = uniform(words, dtype), uniform(words, dtype)
    r = math.sqrt(-2 * math.log(max(u, 1e-7)))
    return [r * math.sin(2 * math.pi * v), r * math.cos(2 * math.pi * v)]


SIZES = [1, 4, 5, 66, 700]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", [float32, float64])
def test_uniforms_are_the_models_bits(dtype, n):
    words = word_stream(KEY)
    want = np.array([uniform(words, dtype.np) for _ in range(n)], dtype.np)
    assert np.array_equal(native(lambda b, k: b.random_uniform(k, shape=(n,), dtype=dtype), KEY), want)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", [float32, float64])
def test_normals_are_the_models(dtype, n):
    words = word_stream(KEY)
    want = [z for _ in range(-(-n // 2)) for z in pair(words, dtype.np)][:n]
    got = native(lambda b, k: b.random_normal(k, shape=(n,), dtype=dtype), KEY)
    assert got.dtype == dtype.np and np.abs(got - want).max() < (1.5e-6 if dtype == float32 else 4e-15)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype, group", [(float32, 4), (float64, 2)])
def test_truncated_normals_are_the_models(dtype, group, n):
    want: list[float] = []
    for g in range(-(-n // group)):
        words, found = word_stream(KEY, g * group * RESERVED // 4), []
        while len(found) < group:
            found += [z for z in pair(words, dtype.np) if abs(z) < 2]
        want += found[:group]
    got = native(lambda b, k: b.truncated_normal(k, shape=(n,), dtype=dtype), KEY)
    assert np.abs(got - want[:n]).max() < (1.5e-6 if dtype == float32 else 4e-15) and np.abs(got).max() < 2


@pytest.mark.parametrize("lo, hi", [(0, 10), (-3, 4), (5, 6), (-2**31, 2**31 - 1)])
@pytest.mark.parametrize("dtype", [int32, int64])
def test_integers_are_the_models(dtype, lo, hi):
    words = word_stream(KEY)
    want = [lo + (next(words) if dtype == int32 else next(words) | next(words) << 32) % (hi - lo) for _ in range(70)]
    got = native(lambda b, k: b.random_uniform_int(k, b.const(dtype.np.type(lo)), b.const(dtype.np.type(hi)), shape=(70,), dtype=dtype), KEY)
    assert got.tolist() == want


@pytest.mark.parametrize("n", [0, 1, 2, 5, 200])
def test_shuffles_are_the_models(n):
    words, want = word_stream(KEY), list(range(n))
    for i in range(n - 1):
        j = i + next(words) % (n - i)
        want[i], want[j] = want[j], want[i]
    assert native(lambda b, k: b.random_shuffle(k, count=n), KEY).tolist() == want


def test_an_empty_range_of_integers_fails_the_run():
    def draw(b, k, lo, hi, n=3):
        return b.random_uniform_int(k, lo, hi, shape=(n,), dtype=int32)
    for lo, hi in ((3, 3), (4, 3)):
        with pytest.raises(errors.InvalidArgumentError, match="Need minval < maxval"):
            native(draw, KEY, np.int32(lo), np.int32(hi))
    assert native(lambda *a: draw(*a, n=0), KEY, np.int32(3), np.int32(3)).shape == (0,)


# ---- what every draw promises ----------------------------------------------------------------------------------------------------

DRAWS = {"bits": lambda b, k, n: b.random_bits(k, count=n), "shuffle": lambda b, k, n: b.random_shuffle(k, count=n),
         **{f"{op} {d.name}": lambda b, k, n, op=op, d=d: getattr(b, op)(k, shape=(n,), dtype=d)
            for op in ("random_uniform", "random_normal", "truncated_normal") for d in (float32, float64)}}


@pytest.mark.parametrize("name", DRAWS)
def test_bits_do_not_depend_on_threads(name):
    n = 40_000 if name != "shuffle" else 500
    one, two = (native(lambda b, k: DRAWS[name](b, k, n), KEY, config=Config(threads=t)) for t in (1, 2))
    assert one.tobytes() == two.tobytes()


@pytest.mark.parametrize("name", [d for d in DRAWS if d != "shuffle"])
def test_a_shorter_draw_is_the_beginning_of_a_longer_one(name):
    long = native(lambda b, k: DRAWS[name](b, k, 1500), KEY)
    for n in (3, 257, 1499):
        assert native(lambda b, k, n=n: DRAWS[name](b, k, n), KEY).tobytes() == long[:n].tobytes()


@pytest.mark.parametrize("name", DRAWS)
def test_keys_of_a_batch_draw_apart(name):
    keys = np.array([[1, 2, 3], [4, 5, 6], [-1, 2**40, 2**33]])
    rows = native(lambda b, k: DRAWS[name](b, k, 70), keys)
    for row, key in zip(rows, keys):
        assert row.tobytes() == native(lambda b, k: DRAWS[name](b, k, 70), key).tobytes()


def test_samples_have_the_distributions_moments():
    n = 200_000
    u = native(lambda b, k: b.random_uniform(k, shape=(n,), dtype=float32), KEY)
    z = native(lambda b, k: b.random_normal(k, shape=(n,), dtype=float32), KEY)
    t = native(lambda b, k: b.truncated_normal(k, shape=(n,), dtype=float32), KEY)
    assert u.min() >= 0 and u.max() < 1 and abs(u.mean() - 0.5) < 0.003 and abs(u.var() - 1 / 12) < 0.002
    assert abs(z.mean()) < 0.01 and abs(z.std() - 1) < 0.01
    assert np.abs(t).max() < 2 and abs(t.mean()) < 0.01 and abs(t.std() - 0.8796) < 0.01


# ---- streams ---------------------------------------------------------------------------------------------------------------------


def test_a_run_moves_its_stream_on_by_what_tf1_reserves():
    x = np.arange(10)
    with sg.Graph().as_default(), sg.Session() as s:
        draws = [sg.random_uniform([3], seed=5), sg.random_normal([3], seed=5), sg.random_shuffle(sg.constant(x), seed=5)]
        runs = [s.run(draws) for _ in range(3)]
    blocks = advance(3), advance(3), shuffle_advance(10)
    assert blocks == (768, 768, 3) and shuffle_advance(0) == shuffle_advance(1) == 0 and shuffle_advance(6) == 2
    for k, (u, z, p) in enumerate(runs):
        keys = [np.array([87654321, 5, k * step]) for step in blocks]
        assert np.array_equal(u, native(lambda b, q: b.random_uniform(q, shape=(3,), dtype=float32), keys[0]))
        assert np.array_equal(z, native(lambda b, q: b.random_normal(q, shape=(3,), dtype=float32), keys[1]))
        assert np.array_equal(p, native(lambda b, q: b.random_shuffle(q, count=10), keys[2]))


def test_lanes_of_a_batch_draw_successive_stretches_of_one_stream():
    case = Case()

    def build(b, x):
        key = b.stream(uid=9, seed=1, seed2=2, advance=advance(5))
        return b.add(b.random_uniform(key, shape=(5,), dtype=float64), x)
    x = case.feed(np.zeros((4, 5)))
    out, dim = case.b.vmap_of(build, 4, [x], [0])
    case.outputs = [out]
    store, exe = StateStore(), case.executable()
    first, second = (exe.run([case.values[0]], store)[0] for _ in range(2))
    assert dim == 0
    for run, rows in enumerate((first, second)):
        for lane, row in enumerate(rows):
            key = np.array([1, 2, (4 * run + lane) * advance(5)])
            assert np.array_equal(row, native(lambda b, k: b.random_uniform(k, shape=(5,), dtype=float64), key))


# ---- dropout ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.5, 0.9])
def test_dropout_keeps_what_tf1_keeps(rate):
    x = np.linspace(-2, 2, 200).astype("f4")
    u = native(lambda b, k: b.random_uniform(k, shape=(200,), dtype=float32), KEY)
    got = native(lambda b, v, k: b.dropout(v, k, b.const(np.float64(rate))), x, KEY)
    kept = u >= np.float32(rate)
    assert np.array_equal(got, np.where(kept, x * np.float32(1 / (1 - rate)), np.float32(0)))


def test_dropout_drops_nan_and_its_gradient_has_the_same_mask():
    x = np.full(64, np.nan)
    case = Case()
    v, k = case.feed(x), case.feed(KEY)
    y = case.b.dropout(v, k, case.b.const(np.float64(0.5)))
    case.outputs = [y, case.b.gradients([y], [v])[0]]
    value, slope = case.run()
    assert np.array_equal(value == 0, slope == 0) and np.array_equal(np.isnan(value), slope == 2) and 0 < (slope == 2).sum() < 64


def test_dropout_of_the_surface_is_the_op_and_shares_noise_along_axes():
    x = np.ones((40, 6), "f4")
    with sg.Graph().as_default(), sg.Session() as s:
        p = sg.placeholder(sg.float32, [None, 6])
        rate = sg.placeholder(sg.float32, [])
        rows, by_rate, by_tensor = s.run([sg.nn.dropout(p, 0.75, noise_shape=[40, 1], seed=3), sg.nn.dropout(p, rate=0.25, seed=3),
                                          sg.nn.dropout(p, rate=rate, seed=3)], {p: x, rate: 0.25})
        with pytest.raises(errors.Error, match="40"):
            s.run(sg.nn.dropout(p, 0.75, noise_shape=[40, 1]), {p: x[:30]})
        with pytest.raises(ValueError, match="keep_prob"):
            sg.nn.dropout(p, 0.0)
        assert sg.nn.dropout(p, 1.0) is p
    assert np.array_equal(rows, np.repeat(rows[:, :1], 6, 1)) and set(np.unique(rows)) == {0, np.float32(4 / 3)}
    key = np.array([87654321, 3, 0])
    want = native(lambda b, v, k: b.dropout(v, k, b.const(np.float64(0.25))), x, key)
    assert np.array_equal(by_rate, want) and np.array_equal(by_tensor, want)


# ---- sizes known at the run only ---------------------------------------------------------------------------------------------------

SIZED = {"uniform": lambda p: p + sg.random_uniform(sg.shape(p), seed=4), "normal": lambda p: p + sg.random_normal(sg.shape(p), seed=4),
         "truncated": lambda p: p + sg.truncated_normal(sg.shape(p), seed=4), "shuffle": lambda p: sg.random_shuffle(p, seed=4),
         "integers": lambda p: p + sg.cast(sg.random_uniform(sg.shape(p), maxval=9, dtype=sg.int32, seed=4), sg.float32),
         "dropout": lambda p: sg.nn.dropout(p, 0.5, seed=4)}


@pytest.mark.parametrize("name", SIZED)
def test_a_size_known_at_the_run_only_gives_the_bits_of_a_constant_one(name):
    """The second size of a session is the first that is compiled as a run-time value; a shuffle of 1 and a draw of 0 leave the stream alone."""
    for n in (7, 1, 600):
        x = np.arange(n, dtype="f4")
        with sg.Graph().as_default():
            unknown, known = sg.placeholder(sg.float32, [None]), sg.placeholder(sg.float32, [n])
            with sg.Session() as s, sg.Session() as t:
                first = s.run(SIZED[name](unknown), {unknown: x})
                y = SIZED[name](unknown)
                assert t.run(y, {unknown: x[:0]}).shape == (0,)
                assert t.run(y, {unknown: x}).tobytes() == first.tobytes() == s.run(SIZED[name](known), {known: x}).tobytes()
