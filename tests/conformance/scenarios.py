"""Hard cases that are scenarios rather than programs: one function each, named by the case's id. An AssertionError is a fault.

``QUICK`` are run by the tests as well; the others take memory or tens of seconds and are run by ``cases.py``.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable

import numpy as np
from native import Case

import staticgraph as sg
from staticgraph.config import Config
from staticgraph.errors import InvalidArgumentError

SCENARIOS: dict[str, Callable[[], None]] = {}
QUICK: list[str] = []


def scenario(quick: bool) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Decorator: the function is the case of its (upper-case) name, run in a graph of its own."""
    def wrap(f: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            with sg.Graph().as_default():
                f()
        run.__doc__ = f.__doc__
        SCENARIOS[f.__name__.upper()] = run
        if quick:
            QUICK.append(f.__name__.upper())
        return run
    return wrap


def raises(kind: type[BaseException] | tuple[type[BaseException], ...], text: str, call: Callable[[], object]) -> None:
    """``call`` must raise ``kind`` with ``text`` in its message."""
    try:
        call()
    except kind as error:
        assert text in str(error), f"{text!r} is not in {error}"
    else:
        raise AssertionError(f"{kind} was not raised")


@scenario(quick=True)
def hc026() -> None:
    """Labels out of range are refused before any read."""
    labels = sg.placeholder(sg.int32, [None])
    loss = sg.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=np.tile(np.array([1, 2, 3], "f4"), (3, 1)))
    with sg.Session() as sess:
        for bad in ([-1, 0, 1], [0, 3, 1], [2**31 - 1, 0, 0]):
            raises(InvalidArgumentError, str(next(b for b in bad if not 0 <= b < 3)), lambda bad=bad: sess.run(loss, {labels: bad}))
        np.testing.assert_allclose(sess.run(loss, {labels: [1, 1, 1]})[2], 1.4076059644443804, rtol=1e-6)


@scenario(quick=True)
def hc058() -> None:
    """Draws are never folded or merged; seeds repeat; the backward pass has the forward pass's mask."""
    u, v = sg.random_uniform([1000]), sg.random_uniform([1000])
    s = sg.random_uniform([1000], seed=3)
    x = sg.placeholder(sg.float32, [1000])
    kept = sg.nn.dropout(x, keep_prob=0.5)
    g, = sg.gradients(kept, [x])
    with sg.Session() as one, sg.Session() as two:
        (a, b), (c, d) = one.run([u, v]), one.run([u, v])
        assert not np.array_equal(a, b) and not np.array_equal(a, c) and not np.array_equal(b, d)
        first = [one.run(s), one.run(s)]
        assert not np.array_equal(*first)
        np.testing.assert_array_equal(first, [two.run(s), two.run(s)])
        y, dy = one.run([kept, g], {x: np.ones(1000)})
        np.testing.assert_array_equal(y, dy)


@scenario(quick=True)
def hc066() -> None:
    """A batch of no rows."""
    logits = sg.placeholder(sg.float32, [None, 3])
    loss = sg.nn.softmax_cross_entropy_with_logits(labels=sg.nn.softmax(logits), logits=logits)
    g, = sg.gradients(loss, [logits])
    with sg.Session() as sess:
        got = sess.run([loss, sg.reduce_sum(loss), sg.reduce_prod(loss), sg.reduce_mean(loss), g], {logits: np.zeros((0, 3))})
    assert got[0].shape == (0,) and got[1] == 0 and got[2] == 1 and np.isnan(got[3]) and got[4].shape == (0, 3)


@scenario(quick=True)
def hc069() -> None:
    """One array in nine layouts."""
    base = np.arange(12.0).reshape(3, 4)
    raw = np.zeros(12 * 8 + 1, np.uint8)
    unaligned = raw[1:].view(np.float64).reshape(3, 4)
    unaligned[...] = base
    wide = np.zeros((6, 8))
    wide[::2, ::2] = base
    frozen = base.copy()
    frozen.flags.writeable = False
    layouts = [base, np.asfortranarray(base), base[::-1, ::-1].copy()[::-1, ::-1], wide[::2, ::2], base.astype(">f8"), unaligned, frozen,
               base.view(np.matrix)]
    x = sg.placeholder(sg.float64, [3, 4])
    y = sg.reduce_sum(x * np.array([[1.0], [2.0], [3.0]]), axis=1)
    with sg.Session() as sess:
        call = sess.make_callable(y, [x])
        for a in layouts:
            before = np.array(a)
            for got in (sess.run(y, {x: a}), call(a)):
                np.testing.assert_array_equal(got, [6.0, 44.0, 114.0])
            np.testing.assert_array_equal(np.array(a), before)
        np.testing.assert_array_equal(sess.run(y, {x: np.broadcast_to(np.float64(2), (3, 4))}), [8, 16, 24])


@scenario(quick=True)
def hc071() -> None:
    """Nobody sees the memory of a variable."""
    for size in (3, 100_000):
        init = np.ones(size)
        v = sg.Variable(init)
        init[:] = 7
        up = sg.assign(v, v + 1.0)
        with sg.Session() as sess:
            sess.run(v.initializer)
            r = sess.run(v)
            assert (r == 1).all()
            r[:] = 9
            assert (sess.run(v) == 1).all()
            r = sess.run(v)
            sess.run(up)
            assert (r == 1).all() and (sess.run(v) == 2).all()


@scenario(quick=True)
def hc072() -> None:
    """A fed intermediate replaces what is above it."""
    p = sg.placeholder(sg.float64, [1])
    m = p * 2.0
    y = m * m
    with sg.Session() as sess:
        got = sess.run([y, sg.gradients(y, [m])[0]], {m: [5.0]})
    assert got[0] == [25.0] and got[1] == [10.0]


@scenario(quick=True)
def hc074() -> None:
    """Feeds by name, and the wrong ones."""
    x, unused = sg.placeholder(sg.float32, [3], name="images"), sg.placeholder(sg.float32, [], name="unused")
    y = sg.reduce_sum(x)
    wrong = (ValueError, TypeError, InvalidArgumentError)
    with sg.Session() as sess:
        assert sess.run(y, {"images:0": [1, 2, 3]}) == 6
        raises(wrong, "nobody", lambda: sess.run(y, {"nobody:0": 1}))
        raises(wrong, "images", lambda: sess.run(y))
        raises(wrong, "images", lambda: sess.run(y, {unused: 1.0}))
        raises(wrong, "images", lambda: sess.run(y, {x: [1, 2]}))
        raises(wrong, "images", lambda: sess.run(y, {x: ["a", "b", "c"]}))


@scenario(quick=False)
def hc075() -> None:
    """20,000 dependent additions and their gradient."""
    start = time.perf_counter()
    x = sg.placeholder(sg.float64, [])
    y = x
    for _ in range(20_000):
        y = y + 0.001 * x
    g, = sg.gradients(y, [x])
    with sg.Session() as sess:
        np.testing.assert_allclose(sess.run([y, g], {x: 1.5}), [31.5, 21.0], rtol=1e-9)
    assert time.perf_counter() - start < 60


def compiled(fetches: list[sg.Tensor], feeds: dict[sg.Tensor, object]) -> object:
    """The executable of a run."""
    with sg.Session() as sess:
        sess.run(fetches, feeds)
        return sess.last_executable


@scenario(quick=True)
def hc077() -> None:
    """2**60 paths, 600 nodes."""
    g = sg.placeholder(sg.float64, [])
    x = sg.constant(0.1, sg.float64)
    for _ in range(60):
        x = x + x * g
    d, = sg.gradients(x, [g])
    with sg.Session() as sess:
        np.testing.assert_allclose(sess.run([x, d], {g: 0.05}), [1.867918589412295, 106.73820510927399], rtol=1e-12)
        variant = next(iter(sess.last_executable.variants.values()))
    assert len(variant.graph) < 600


@scenario(quick=False)
def hc079() -> None:
    """5,000 placeholders, 2,000 fetches, and passes that are near linear."""
    ps = [sg.placeholder(sg.float64, []) for _ in range(5000)]
    feeds = {p: float(k + 1) for k, p in enumerate(ps)}
    partial, total = [], ps[0]
    for p in ps[1:2001]:
        total = total + p
        partial.append(total)
    with sg.Session() as sess:
        assert sess.run(sg.add_n(ps), feeds) == 12502500.0
        got = sess.run(partial[:2000], feeds)
        assert len(got) == 2000 and got[1998] == 2001000.0

    def seconds(n: int) -> float:
        with sg.Graph().as_default():
            x = y = sg.placeholder(sg.float64, [4])
            for k in range(n // 4):
                y = sg.sin(y) * 1.5 + x if k % 2 else sg.exp(-y) - x
            with sg.Session(config=Config(cache=False)) as sess:
                sess.run(y, {x: np.ones(4)})
                return sess.last_executable.report.seconds["passes"]
    for _ in range(2):                       # a second look where the machine was busy
        ratio = seconds(100_000) / seconds(50_000)
        if ratio < 2.5:
            return
    raise AssertionError(f"twice the nodes take {ratio:.2f} times the time")


@scenario(quick=False)
def hc080() -> None:
    """A recurrence by indexed updates: compile time grows about linearly."""
    data = np.linspace(0, 1, 400)

    def build(n: int) -> float:
        case = Case()
        x = case.feed(data)
        b = case.b
        f = b.scatter_update(b.zeros(x.aval), b.const(np.array([0])), b.slice(x, starts=(0,), sizes=(1,), steps=(1,)))
        for i in range(1, n):
            now, last = (b.slice(v, starts=(k,), sizes=(1,), steps=(1,)) for v, k in ((x, i), (f, i - 1)))
            f = b.scatter_update(f, b.const(np.array([i])), b.add(now, b.mul(last, 0.5)))
        case.outputs = [f]
        start = time.perf_counter()
        got, = case.run(Config(cache=False))
        np.testing.assert_allclose(got[399], 1.994987468671679 if n == 400 else 0, rtol=1e-12)
        return time.perf_counter() - start
    build(50)
    assert min(build(400) for _ in range(2)) < 2.6 * max(build(200) for _ in range(2))


@scenario(quick=True)
def hc087() -> None:
    """Indices out of range, fed and constant."""
    i = sg.placeholder(sg.int64, [None])
    x = sg.constant(np.arange(10.0, 15.0))
    with sg.Session() as sess:
        for bad in (5, -6, 2**31, -2**63):
            raises((IndexError, InvalidArgumentError), str(bad), lambda bad=bad: sess.run(sg.gather(x, i), {i: [bad]}))
            raises((IndexError, InvalidArgumentError), str(bad), lambda bad=bad: sess.run(sg.gather(x, np.array([bad]))))
        raises(InvalidArgumentError, "-1", lambda: sess.run(sg.gather(x, i), {i: [-1, 0]}))        # TF's rule at the surface
    from staticgraph.dynamic import tensor
    np.testing.assert_array_equal(tensor(np.arange(10.0, 15.0))[np.array([-1, 0])].numpy(), [14.0, 10.0])


@scenario(quick=False)
def hc091() -> None:
    """Offsets beyond 2**31."""
    shape = (1, 46342, 46341)
    pages, free = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_AVPHYS_PAGES")
    if pages * free < 6e9:
        return
    a = np.zeros(shape, bool)
    a[0, 46341, 46340] = True
    x = sg.placeholder(sg.bool, shape)
    with sg.Session() as sess:
        last, count = sess.run([x[0, 46341, 46340], sg.count_nonzero(x)], {x: a})
    assert last and count == 1


@scenario(quick=True)
def hc097() -> None:
    """A loop whose variable passes through, and two steps of descent."""
    v = sg.Variable(np.float64(2.0))
    _, out = sg.while_loop(lambda i, w: i < 1, lambda i, w: (i + 1, w), [sg.constant(0), v.read_value()])
    y = out * out
    g, = sg.gradients(y, [v])
    step = sg.assign(v, v - 0.9 * g)
    with sg.Session() as sess:
        sess.run(v.initializer)
        assert sess.run([y, g]) == [4.0, 4.0]
        np.testing.assert_allclose([sess.run(step), sess.run(step)], [-1.6, 1.28], rtol=1e-9)


@scenario(quick=True)
def hc099() -> None:
    """The counter of a branch not taken."""
    c, p = sg.Variable(np.int64(0)), sg.placeholder(sg.bool, [])
    out = sg.cond(p, lambda: sg.assign_add(c, np.int64(1)), lambda: c.read_value())
    with sg.Session() as sess:
        sess.run(c.initializer)
        sess.run(out, {p: False})
        assert sess.run(c) == 0
        sess.run(out, {p: True})
        assert sess.run(c) == 1


@scenario(quick=True)
def hc101() -> None:
    """A batched conditional with a zero row."""
    def unit(x):
        return sg.cond(sg.reduce_all(sg.equal(x, 0.0)), lambda: sg.zeros_like(x), lambda: x / sg.sqrt(sg.reduce_sum(x * x)))
    rows = np.array([[0.0, 0.0], [3.0, 4.0]])
    np.testing.assert_allclose(sg.vmap(unit)(rows), [[0, 0], [0.6, 0.8]], rtol=1e-9)
    g = sg.grad(lambda x: sg.reduce_sum(sg.vmap(unit)(x)))(rows)
    np.testing.assert_allclose(g, [[0, 0], [0.032, -0.024]], rtol=1e-9, atol=1e-12)


@scenario(quick=True)
def hc102() -> None:
    """A conditional in a loop."""
    def power(x):
        return sg.while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, sg.cond(i < 9, lambda: v * x, lambda: v)), [sg.constant(0), sg.ones_like(x)])[1]
    got = sg.value_and_grad(power)(np.float64(3.0))
    np.testing.assert_allclose(got, [81, 108], rtol=1e-9)


@scenario(quick=True)
def hc104() -> None:
    """Five derivatives of tanh in three ways."""
    want = [0.9151369618266292, -0.5331818782014544, -1.3643061061011235, 3.72248581661372, 6.113703931953152]

    def forward(f):
        return lambda x: sg.jvp(f, (x,), (sg.ones_like(x),))[1]
    for modes in ([sg.grad] * 5, [forward] * 5, [sg.grad, forward, sg.grad, forward, sg.grad]):
        f, got = sg.tanh, []
        for m in modes:
            f = m(f)
            got.append(sg.function(f)(np.float64(0.3)))
        np.testing.assert_allclose(got, want, rtol=1e-9)
    x = y = sg.placeholder(sg.float64, [])
    y = sg.tanh(y)
    for _ in range(5):
        y, = sg.gradients(y, [x])
    with sg.Session() as sess:
        np.testing.assert_allclose(sess.run(y, {x: 0.3}), want[4], rtol=1e-9)
        assert len(next(iter(sess.last_executable.variants.values())).graph) < 2000


@scenario(quick=True)
def hc105() -> None:
    """Eight threads on one session."""
    x, v = sg.placeholder(sg.float64, [1000]), sg.Variable(np.float64(1))
    y = sg.reduce_sum(x * x) + v
    wrong: list[object] = []
    with sg.Session(config=Config(threads=2)) as sess:
        sess.run(v.initializer)

        def work(t: int) -> None:
            feed = np.full(1000, float(t))
            for _ in range(2000 if t % 4 == 0 else 200):
                got = sess.run(y, {x: feed})
                if got != 1000 * t * t + 1:
                    wrong.append((t, got))
        threads = [threading.Thread(target=work, args=(t,)) for t in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not wrong, wrong[:3]


@scenario(quick=True)
def hc107() -> None:
    """A child of a process whose thread pool has run."""
    x = sg.placeholder(sg.float64, [None])
    y = x * 2.0
    with sg.Session(config=Config(threads=2)) as sess:
        sess.run(y, {x: np.ones(2_000_000)})
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                good = sess.run(y, {x: [5.0]})[0] == 10.0 and (sess.run(y, {x: np.ones(2_000_000)}) == 2).all()
                with sg.Graph().as_default():
                    z = sg.placeholder(sg.float64, [])
                    with sg.Session() as inner:
                        good = good and inner.run(sg.exp(z) + 1.0, {z: 0.0}) == 2.0
                code = 0 if good else 1
            finally:
                os._exit(code)
        deadline = time.monotonic() + 20
        while (done := os.waitpid(pid, os.WNOHANG)) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(pid, 9)
                os.waitpid(pid, 0)
                raise AssertionError("the child hangs")
            time.sleep(0.01)
        assert os.waitstatus_to_exitcode(done[1]) == 0
        assert sess.run(y, {x: [5.0]})[0] == 10.0


def resident() -> float:
    """Resident memory of this process in MB."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@scenario(quick=False)
def hc109() -> None:
    """500 compiles leave memory as it was."""
    seen: list[float] = []
    for k in range(500):
        with sg.Graph().as_default():
            x = sg.placeholder(sg.float64, [3 + k])
            with sg.Session(config=Config(cache=False)) as sess:
                sess.run(sg.reduce_sum(sg.exp(x) * float(k)), {x: np.ones(3 + k)})
        if k in (50, 499):
            gc.collect()
            seen.append(resident())
    assert seen[1] - seen[0] < 30, f"{seen[1] - seen[0]:.0f} MB more"
