"""``sg.check_gradients``: on every op, on models, and on rules that are wrong."""

from __future__ import annotations

import derived
import numpy as np
import pytest

import staticgraph as sg
from staticgraph.surface.funnel import emit

v = np.array([0.5, 1.0, 2.0])


@pytest.mark.parametrize("op", [op for op in derived.testable() if derived.differentiable(op)], ids=lambda op: op.name)
def test_numerical_reverse_and_forward_agree(op):
    checked = 0
    for _k, s in derived.smooth_samples(op)[:1]:
        if any(hasattr(a, "results") for a in s.attrs.values()):
            pytest.skip("a region is checked as part of cond and while_loop, below")
        fn = lambda *xs, s=s: emit("Op", "op", xs, lambda b, *ns: b.call(op, *ns, **s.attrs))
        with np.errstate(all="ignore"):
            outs = derived.reference(op, s)
        if not any(o.dtype.kind == "f" for o in outs):
            continue
        report = sg.check_gradients(fn, *s.arrays, directions=2, rtol=1e-4)
        assert report, f"{s}\n{report}"
        checked += 1
    assert checked or not derived.smooth_samples(op)


def rnn(w, x):
    return sg.reduce_sum(sg.scan(lambda h, r: sg.tanh(sg.reduce_sum(sg.expand_dims(h + r, 1) * w, axis=0)), x, initializer=x[0] * 0.0))


def branch(x):
    return sg.cond(sg.reduce_sum(x) > 0.0, lambda: sg.sin(x), lambda: x * x)


def loop(x):
    return sg.while_loop(lambda k, y: k < 4, lambda k, y: [k + 1, sg.sin(y) * x], [sg.constant(0), x])[1]


@pytest.mark.parametrize("fn, args", [
    (rnn, (np.eye(3) / 2, v[None] * np.ones((4, 1)))), (branch, (v,)), (loop, (v,)), (lambda x, i: {"rows": sg.gather(x, i), "more": (x * 2.0, i)}, (v, np.array([0, 0, 2]))),
    (lambda x: sg.nn.softmax_cross_entropy_with_logits_v2(labels=np.eye(3), logits=x), (np.outer(v, v),)), (lambda x: sg.hvp(lambda u: sg.reduce_sum(u ** 3.0), (x,), (x,)), (v,)),
    (sg.checkpoint(lambda x: sg.exp(sg.sin(x))), (v,)), (lambda x: sg.reduce_sum(x) * 1e6, (v,)), (lambda x: x * 1e-8, (v,))], ids=range(9))
def test_models_agree(fn, args):
    report = sg.check_gradients(fn, *args)
    assert report and report.worst < 1e-7 and "agree" in str(report)


def test_a_wrong_rule_is_found_and_its_worst_element_named():
    @sg.custom_gradient
    def wrong(x):
        return x * x, lambda ct: ct * sg.constant([2.0, 2.0, 3.0], sg.float64) * x
    report = sg.check_gradients(lambda x, y: wrong(x) + y, v, v)
    assert not report and "DISAGREE" in str(report) and "no rule" in str(report)
    assert "worst: argument 0[2]: numerical" in str(report)


def test_a_kink_is_named_as_such():
    assert "NOT SMOOTH" in str(sg.check_gradients(sg.nn.relu, np.array([0.0, 1.0]))) and sg.check_gradients(sg.nn.relu, np.array([-0.5, 1.0]))
    assert "NOT SMOOTH" in str(sg.check_gradients(lambda x: sg.where(x > 1.0, x * 2.0, x), np.array([1.0])))


def test_infinite_and_undefined_derivatives_do_not_pass():
    assert "not finite" in str(sg.check_gradients(sg.sqrt, np.array([0.0, 1.0])))
    assert not sg.check_gradients(sg.log, np.array([-1.0]))


def test_what_cannot_be_checked_is_refused():
    with pytest.raises(TypeError, match="argument of a float type"):
        sg.check_gradients(lambda i: i, np.array([1]))
    with pytest.raises(TypeError, match="result of a float type"):
        sg.check_gradients(lambda x: x > 0.0, v)
    with pytest.raises(ValueError, match="different values for the same arguments"):
        sg.check_gradients(lambda x: sg.nn.dropout(x, rate=0.5), np.linspace(1.0, 2.0, 64))         # two masks of 64 are not equal by chance
