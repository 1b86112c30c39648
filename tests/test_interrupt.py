"""Ctrl-C and time limits stop a run between kernels, and nothing is changed by it."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest

import staticgraph as sg
from staticgraph.errors import DeadlineExceededError
from staticgraph.runtime.interrupt import time_limit


@pytest.fixture
def endless():
    """A session, a counter, and an operation that loops for hours and would then set the counter."""
    with sg.Graph().as_default(), sg.Session() as sess:
        counter = sg.Variable(np.int64(7))
        _, x = sg.while_loop(lambda i, x: i < 10**12, lambda i, x: (i + 1, sg.sin(x)), [sg.constant(0, sg.int64), sg.ones([4000])])
        step = sg.assign(counter, sg.cast(x[0], sg.int64))
        sess.run(counter.initializer)
        yield sess, counter, step, x


@contextmanager
def signals(number, every=0.3):
    """Within: the signal comes again and again. (One alone may fall into a finalizer, where Python swallows what its handler raises.)"""
    stop = threading.Event()

    def send():
        while not stop.wait(every):
            os.kill(os.getpid(), number)
    t = threading.Thread(target=send)
    t.start()
    try:
        yield
    finally:
        while t.is_alive():
            try:
                stop.set()
                t.join()
            except KeyboardInterrupt:        # one more that was on its way
                pass


@pytest.mark.parametrize("call", ["run", "callable"])
def test_ctrl_c(endless, call):
    sess, counter, step, x = endless
    run = (lambda: sess.run(step)) if call == "run" else sess.make_callable(x)
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt), signals(signal.SIGINT):
        run()
    assert time.monotonic() - start < 30
    assert sess.run(counter) == 7
    assert sess.run(counter + 1) == 8


def test_a_handler_that_returns_does_not_stop_the_run(endless):
    sess, counter, step, _ = endless
    seen = []

    def handler(number, frame):
        seen.append(number)
        if len(seen) >= 3:
            raise TimeoutError("enough")
    saved = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(TimeoutError, match="enough"), signals(signal.SIGUSR1):
            sess.run(step)
    finally:
        signal.signal(signal.SIGUSR1, saved)
    assert len(seen) >= 3 and sess.run(counter) == 7


def test_time_limits(endless):
    sess, counter, step, _ = endless
    with time_limit(0.3), pytest.raises(DeadlineExceededError, match="Timed out"):
        sess.run(step)
    options = type("RunOptions", (), {"timeout_in_ms": 300})()
    with pytest.raises(DeadlineExceededError, match="Timed out"):
        sess.run(step, options=options)
    assert sess.run(counter) == 7


def test_other_threads_go_on(endless):
    sess, _, step, _ = endless
    got = []

    def work():
        with sg.Graph().as_default(), sg.Session() as inner:
            _, x = sg.while_loop(lambda i, x: i < 30_000, lambda i, x: (i + 1, x + 1.0), [sg.constant(0), sg.zeros([2000])])
            got.append(inner.run(x)[0])
    t = threading.Thread(target=work)
    t.start()
    with pytest.raises(KeyboardInterrupt), signals(signal.SIGINT):
        sess.run(step)
    t.join()
    assert got == [30_000]
