"""What the dynamic mode says when it refuses, depth, repeatable draws, NumPy beside it, and what prints."""

from __future__ import annotations

import copy
import gc
import threading
import weakref

import numpy as np
import pytest

import staticgraph as sg
import staticgraph.dynamic as dy
from staticgraph.errors import GraphError


def notes_of(caught):
    return "\n".join(caught.value.__notes__)


# ---- the famous error names both lines ------------------------------------------------------------------------------------------------

def test_the_in_place_error_names_where_the_value_was_kept_and_where_it_was_changed():
    x = dy.tensor([1.0, 2.0], requires_grad=True)
    h = x * 2
    y = (h * h).sum()                        # kept here
    h.add_(1)                                # changed here
    with pytest.raises(RuntimeError, match="modified by an inplace operation: operand 0 of MulBackward, f32\\[2\\], is at version 1; expected version 0") as caught:
        y.backward()
    assert "kept here" in notes_of(caught) and "modified by add_" in notes_of(caught) and "changed here" in notes_of(caught)
    assert x.grad is None


@pytest.mark.parametrize("change", [lambda h: h.mul_(2), lambda h: h.zero_(), lambda h: h.fill_(3), lambda h: h.copy_(h.detach() + 1), lambda h: h.__setitem__(0, 5.0),
                                    lambda h: h[0].add_(1), lambda h: h.view(-1).sub_(1), lambda h: h.detach().exp_(), lambda h: h.clamp_(0, 1), lambda h: h.masked_fill_(h > 2, 0.0),
                                    lambda h: h.__setitem__(np.array([0, 0]), 1.0), lambda h: h.__iadd__(1)])
def test_every_way_to_change_a_kept_value_is_noticed(change):
    h = dy.tensor([1.0, 2.0], requires_grad=True) * 2
    y = h.sin().sum()
    change(h)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_an_optimizer_step_between_forward_and_backward_is_noticed():
    w = dy.tensor([1.0], requires_grad=True)
    opt = dy.optim.SGD([w], lr=0.1)
    w.grad = dy.ones(1)
    y = (w * w).sum()
    opt.step()                               # the step
    with pytest.raises(RuntimeError, match="modified by an inplace") as caught:
        y.backward()
    assert "SGD.step" in notes_of(caught) and "the step" in notes_of(caught)


def test_the_second_backward_names_the_line_of_the_operation():
    y = (dy.tensor([1.0], requires_grad=True) ** 2).sum()            # recorded here
    y.backward()
    with pytest.raises(RuntimeError, match="a second time.*PowBackward.*retain_graph=True") as caught:
        y.backward()
    assert "recorded here" in notes_of(caught)


def test_a_failed_backward_leaves_every_grad_as_it_was():
    x, w = dy.tensor([1.0], requires_grad=True), dy.tensor([2.0], requires_grad=True)
    h = x * 3
    y = (h * h).sum() + (w * 2).sum()
    h.add_(1)
    with pytest.raises(RuntimeError):
        y.backward()
    assert x.grad is None and w.grad is None


def test_refusals_tell_the_users_line_and_a_remedy():
    with pytest.raises(GraphError, match="Incompatible shapes") as caught:
        dy.tensor([1.0, 2.0]) + dy.tensor([1.0, 2.0, 3.0])           # this line
    assert caught.value.__traceback__.tb_next is None or caught.value.site.line == caught.value.__traceback__.tb_lineno
    with pytest.raises(GraphError, match="nothing is promoted silently \\(use cast\\)"):
        dy.tensor([1.0]) * dy.tensor([1])
    with pytest.raises(RuntimeError, match="y.sum\\(\\).backward\\(\\)"):
        (dy.tensor([1.0, 2.0], requires_grad=True) * 2).backward()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad") as caught:
        dy.tensor([1.0], requires_grad=True).mul_(2)
    assert "no_grad" in notes_of(caught)
    with pytest.warns(UserWarning, match="retain_grad.*MulBackward.*made in this line") as warned:
        (dy.tensor([1.0], requires_grad=True) * 2).grad              # noqa: B018    made in this line
    assert warned[0].filename == __file__


# ---- depth, life, threads ----------------------------------------------------------------------------------------------------------------

def test_a_graph_of_20000_operations_needs_no_recursion_in_either_order_of_differentiation():
    x = dy.tensor(0.5, dtype="float64", requires_grad=True)
    y = x
    for _ in range(20_000):
        y = y + x * x * 1e-5
    (g,) = dy.grad(y, x, create_graph=True)
    (second,) = dy.grad(g, x, retain_graph=True)
    assert np.isclose(g.item(), 1 + 0.2) and np.isclose(second.item(), 0.4)
    y.backward()
    assert np.isclose(x.grad.item(), 1.2)
    del y, g                                 # nor does its end


def test_what_nothing_refers_to_is_freed_without_the_garbage_collector():
    gc.disable()
    try:
        x = dy.tensor(np.ones(3), requires_grad=True)
        h = (x * 2).exp()
        array, fn = weakref.ref(h._array), weakref.ref(h.grad_fn)
        y = h.tanh().sum()
        del h
        assert array() is not None           # exp kept its result
        y.backward()
        assert array() is None
        del y
        assert fn() is None
    finally:
        gc.enable()


def test_only_values_that_a_rule_reads_are_kept():
    x = dy.tensor(np.ones(1000), requires_grad=True)
    first = weakref.ref((h := x * 2)._array)
    y = (h + 1).sum()                        # a sum needs no values
    del h
    assert first() is None
    y.backward()


def test_recording_is_a_matter_of_the_thread():
    x, seen = dy.tensor([1.0], requires_grad=True), []
    with dy.no_grad():
        t = threading.Thread(target=lambda: seen.append((x * 2).requires_grad))
        t.start()
        t.join()
    assert seen == [True]


def test_no_grad_decorates_functions_and_generators():
    x = dy.tensor([1.0], requires_grad=True)

    @dy.no_grad
    def f():
        return (x * 2).requires_grad

    @dy.no_grad()
    def g():
        yield (x * 2).requires_grad
        yield (x * 2).requires_grad

    @dy.set_grad_enabled(False)
    def h():
        return (x * 2).requires_grad
    assert not f() and not h() and dy.is_grad_enabled()
    for inside in g():
        assert not inside and (x * 2).requires_grad


# ---- draws --------------------------------------------------------------------------------------------------------------------------------

def test_draws_repeat_after_either_seed_and_never_touch_numpys():
    np.random.seed(0)
    before = np.random.get_state()[1].tolist()
    x = dy.ones(1000, requires_grad=True)

    def draws():
        return [t.detach().numpy().tolist() for t in (sg.nn.dropout(x, rate=0.3), dy.dropout(x, 0.3), dy.rand(5), dy.randn(5), dy.randint(10, (5,)), dy.randperm(5),
                                                      sg.random_shuffle(dy.arange(5)))]
    dy.manual_seed(7)
    first = draws()
    assert draws() != first
    dy.manual_seed(7)
    assert draws() == first
    sg.set_random_seed(7)
    assert draws() == first
    assert np.random.get_state()[1].tolist() == before
    sg.reset_default_graph()


def test_dropout_with_a_seed_drops_what_the_graph_drops():
    with sg.Graph().as_default(), sg.Session() as s:
        t = sg.nn.dropout(sg.ones([100]), rate=0.4, seed=5)
        graph = [s.run(t), s.run(t)]
    dy.manual_seed(0)
    with sg.Graph().as_default():
        ours = [sg.nn.dropout(dy.ones(100), rate=0.4, seed=5).numpy() for _ in range(2)]
    assert (graph[0] == ours[0]).all() and (graph[1] == ours[1]).all() and (graph[0] != graph[1]).any()
    assert 0.2 < (ours[0] == 0).mean() < 0.6 and np.allclose(ours[0][ours[0] > 0], 1 / 0.6)


def test_a_checkpoint_draws_the_same_numbers_again():
    x = dy.tensor(np.ones(50), requires_grad=True)
    out = dy.checkpoint(lambda v: dy.dropout(v.exp(), 0.5), x)
    after = dy.rand(3)
    out.sum().backward()
    assert np.allclose(x.grad.numpy(), out.detach().numpy())
    assert after.shape == (3,)


def test_checkpoint_keeps_the_operands_only_and_reaches_closures():
    calls, w = [], dy.tensor(2.0, dtype="float64", requires_grad=True)

    def block(v, k):
        calls.append(k)
        return (v * w).exp(), v * 3
    x = dy.tensor([0.1, 0.2], dtype="float64", requires_grad=True)
    a, b = dy.checkpoint(block, x, "number")
    (a.sum() + b.sum()).backward()
    e = np.exp(2 * x.detach().numpy())
    assert calls == ["number"] * 2 and np.allclose(x.grad.numpy(), 2 * e + 3) and np.isclose(w.grad.item(), (x.detach().numpy() * e).sum())
    with pytest.raises(RuntimeError, match="a second time"):
        a.sum().backward()
    c = dy.checkpoint(block, y := x * 1, "number")[0].sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match="an argument of CheckpointBackward.*version 1; expected version 0"):
        c.backward()


class Double(dy.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, ct):
        return ct * 2


@pytest.mark.parametrize("use", [lambda v: v * 2, lambda v: dy.checkpoint(lambda u: u * 2, v), Double.apply, lambda v: v.clone().mul_(2), lambda v: dy.zeros(1, dtype="float64").copy_(v) * 2],
                         ids=range(5))
def test_a_view_whose_base_has_changed_since_is_used_for_the_first_time(use):
    x = dy.tensor(np.array([1.0, 1.0]), requires_grad=True)
    y = x * 3
    v = y[:1]
    y.mul_(5)                                # v has a new history, which it works out when it is used
    use(v).sum().backward()
    assert x.grad.tolist() == [30, 0]


def test_checkpoints_differentiate_twice():
    x = dy.tensor(0.3, dtype="float64", requires_grad=True)
    (g,) = dy.grad(dy.checkpoint(lambda v: v.sin() * v, x), x, create_graph=True)
    (second,) = dy.grad(g, x)
    assert np.isclose(second.item(), 2 * np.cos(0.3) - 0.3 * np.sin(0.3))


# ---- numbers and arrays mix in -------------------------------------------------------------------------------------------------------------------

def test_numpy_functions_of_tensors_are_recorded():
    x = dy.tensor(np.array([[0.1, 0.2], [0.3, 0.4]]), requires_grad=True)
    a = np.array([[1.0, 2.0], [3.0, 4.0]])
    for f in (lambda v: np.sin(v) * 2, lambda v: a + v, lambda v: a @ v, lambda v: np.maximum(v, 0.25), lambda v: a / v, lambda v: np.exp(-v) ** 2, lambda v: np.sum(v, axis=0),
              lambda v: np.mean(v), lambda v: np.concatenate([v, a]), lambda v: np.where(a > 2, v, a), lambda v: np.clip(v, 0.15, 0.35), lambda v: np.transpose(v) - a,
              lambda v: np.float64(3) * v, lambda v: np.reshape(v, (4,)), lambda v: np.arctan2(v, a), lambda v: np.stack([v, v], axis=1), lambda v: np.dot(a, v)):
        got = f(x)
        assert isinstance(got, dy.Tensor) and got.requires_grad and np.allclose(got.detach().numpy(), f(x.detach().numpy()))


def test_numpy_takes_values_only_where_no_gradient_is_lost():
    x = dy.tensor([1.0, 2.0])
    assert np.asarray(x) is x.numpy() and np.isclose(np.linalg.norm(x), 5 ** 0.5) and np.array(x).dtype == np.float32
    assert np.asarray(x, np.float64).dtype == np.float64 and np.fft.fft(x).shape == (2,)
    a = np.zeros(2, np.float32)
    a += x
    assert a.tolist() == [1, 2]
    x.requires_grad_()
    for lost in (lambda: np.asarray(x), lambda: np.linalg.norm(x), lambda: np.add(a, x, out=a), lambda: np.median(x), lambda: x.numpy()):
        with pytest.raises(RuntimeError, match="detach"):
            lost()
    assert x.numpy(force=True).tolist() == [1, 2]


def test_numbers_and_arrays_adopt_the_tensors_dtype():
    x = dy.tensor([1.0, 2.0])
    for y in (x + 1, 1 - x, x * 2.5, x + np.float64(1), x * np.array([1.0, 2.0]), np.array([1, 2]) * x, x + True):
        assert y.dtype == sg.float32
    assert (dy.tensor([1, 2]) + 1).dtype == sg.int64 and (dy.tensor([1, 2]) / 2).tolist() == [0.5, 1.0]
    with pytest.raises(TypeError, match="Expected int64"):
        dy.tensor([1, 2]) * 0.5


# ---- indexing --------------------------------------------------------------------------------------------------------------------------------------

INDICES = [0, -1, slice(1, None), slice(None, None, 2), (0, 1), (slice(None), 1), (..., 0), (None, 1), (slice(None), None, 2), ([0, 1],), ([[0, 1], [1, 0]],), ([0, 1], [1, 2]),
           (slice(None), [2, 0]), (1, [0, 2]), (np.array([True, False]),), ([True, False],), slice(None, None, -1), (slice(5, 2),), ...]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_reads_and_writes_what_numpy_does(index):
    a = np.arange(24.0).reshape(2, 3, 4)
    x = dy.tensor(a, requires_grad=True)
    plain = index[0] if isinstance(index, tuple) and len(index) == 1 else index
    got = x[plain]
    assert np.array_equal(got.detach().numpy(), a[plain]) and got.shape == a[plain].shape
    weights = np.random.default_rng(0).normal(size=got.shape)
    (got * weights).sum().backward()
    want = np.zeros_like(a)
    np.add.at(want, plain, weights)
    assert np.allclose(x.grad.numpy(), want)
    y, b = x * 1, a.copy()
    value = dy.tensor(weights, requires_grad=True)
    y[plain], b[plain] = value, weights
    assert np.array_equal(y.detach().numpy(), b)
    x.grad = None
    y.sum().backward()
    left = np.ones_like(a)
    left[plain] = 0
    assert np.array_equal(x.grad.numpy(), left)
    named = np.arange(24).reshape(2, 3, 4)[plain]
    if weights.size and len(np.unique(named)) == named.size:         # of values for one element the last stays, and has the gradient
        assert np.array_equal(value.grad.numpy(), np.ones_like(weights))
    assert value.grad is None or value.grad.numpy().sum() == len(np.unique(named))


def test_indices_out_of_range_are_index_errors():
    x = dy.zeros(2, 3)
    for bad in (2, (0, 3), [5], (0, 0, 0), (slice(None), [3])):
        with pytest.raises(IndexError):
            x[bad]
    with pytest.raises(TypeError, match="integers, slices"):
        x["a"]
    with pytest.raises(ValueError, match="cannot be broadcast|must match the existing size"):
        x[0] = dy.zeros(2)


# ---- what prints -----------------------------------------------------------------------------------------------------------------------------------------

def test_tensors_print_as_pytorchs():
    x = dy.tensor([1.0, 0.5], requires_grad=True)
    assert repr(x) == "tensor([1.0000, 0.5000], requires_grad=True)"
    assert repr(x * 2).endswith("grad_fn=<MulBackward>)") and repr(dy.tensor([1, 2])) == "tensor([1, 2])"
    assert repr(dy.tensor(2.0)) == "tensor(2.)" and repr(dy.tensor(np.array([1.0]))) == "tensor([1.], dtype=float64)"
    assert f"{dy.tensor(3.14159):.2f}" == "3.14" and "size=[0, 3]" in repr(dy.zeros(0, 3))
    assert repr((x @ x).grad_fn) == "<ReshapeBackward>" and (x * 2).grad_fn.metadata["line"].startswith("test_dynamic_errors.py:")


def test_copies_and_attributes():
    x = dy.tensor([1.0], requires_grad=True)
    (x * 2).sum().backward()
    y = copy.deepcopy(x)
    y.label = "users may hang things on tensors"
    assert y is not x and y.requires_grad and y.grad.tolist() == [2.0] and y.grad is not x.grad
    with pytest.raises(RuntimeError, match="different size"):
        x.grad = dy.ones(3)
    with pytest.raises(TypeError, match="Tensor or None"):
        x.grad = 3
