"""PyTorch's manners: accumulation, seeds, the graph's life, leaves and results, modes."""

from __future__ import annotations

import warnings

import numpy as np
from situations import Raises, Table, leaf

table = Table()
outcome = table.outcome


# ---- accumulation -----------------------------------------------------------------------------------------------------------------

@outcome([5.0, 7.0])
def grad_accumulates_over_backwards(t):
    x = leaf(t, 1.0, 2.0)
    (x * x).sum().backward()
    (x * 3).sum().backward()
    return x.grad


@outcome([6.0])
def a_leaf_used_twice_gets_both_contributions(t):
    x = leaf(t, 3.0)
    y = x * 1
    (y + y).sum().backward()
    x.grad *= 3
    return x.grad


@outcome(True)
def accumulation_goes_into_the_same_tensor(t):
    x = leaf(t, 1.0)
    x.sum().backward()
    first = x.grad
    x.sum().backward()
    return x.grad is first and first.tolist() == [2.0]


@outcome([None, [0.0, 0.0]])
def zero_grad_forgets_or_fills(t):
    x = leaf(t, 1.0, 2.0)
    (x * x).sum().backward()
    opt = t.optim.SGD([x], lr=0.1)
    opt.zero_grad()
    none = x.grad
    (x * x).sum().backward()
    opt.zero_grad(set_to_none=False)
    return none, x.grad


@outcome([1.0, 1.0])
def a_broadcast_operand_gets_a_sum(t):
    x = leaf(t, 1.0, 1.0)
    (x + t.zeros(3, 2)).sum().backward()
    return x.grad / 3


@outcome(None)
def grad_is_none_before_backward(t):
    return leaf(t, 1.0).grad


@outcome([1.0])
def backward_of_a_leaf_itself(t):
    x = leaf(t, 5.0)
    x.backward()
    return x.grad


@outcome([[2.0], None])
def backward_inputs_restricts_what_accumulates(t):
    x, w = leaf(t, 1.0), leaf(t, 2.0)
    (x * w).sum().backward(inputs=[x])
    return x.grad, w.grad


@outcome([12.0])
def backward_inputs_may_be_a_result(t):
    x = leaf(t, 2.0)
    y = x * x
    y.retain_grad()
    (y * y).sum().backward(inputs=[y, x])
    return y.grad + x.grad / 8


@outcome(Raises("cannot be empty"))
def backward_inputs_must_not_be_empty(t):
    leaf(t, 1.0).sum().backward(inputs=[])


# ---- seeds ------------------------------------------------------------------------------------------------------------------------

@outcome(Raises("grad can be implicitly created only for scalar outputs"))
def backward_of_several_elements_needs_a_gradient(t):
    (leaf(t, 1.0, 2.0) * 2).backward()


@outcome([10.0, 40.0])
def backward_with_a_gradient(t):
    x = leaf(t, 1.0, 2.0)
    (x * x).backward(gradient=t.tensor([5.0, 10.0]))
    return x.grad


@outcome(Raises("shape"))
def a_gradient_of_another_shape_is_refused(t):
    (leaf(t, 1.0, 2.0) * 2).backward(t.ones(3))


@outcome(Raises("does not require grad"))
def backward_without_anything_that_requires_grad(t):
    t.tensor([1.0]).sum().backward()


@outcome([2.0, 6.0])
def grad_of_two_outputs_adds_up(t):
    x = leaf(t, 1.0, 3.0)
    (g,) = t.autograd.grad([x.sum() * 2, (x * x)[1:]], [x], grad_outputs=[None, t.tensor([2 / 3])])
    return g.round() if g[1] < 6.1 and abs(g[1] - 6) < 1e-5 else g


@outcome([4.0, None])
def grad_leaves_the_leaves_alone(t):
    x = leaf(t, 2.0)
    (g,) = t.autograd.grad((x * x).sum(), x)
    return g.item(), x.grad


@outcome(Raises("appears to not have been used in the graph"))
def grad_of_an_unused_input(t):
    x, z = leaf(t, 1.0), leaf(t, 1.0)
    t.autograd.grad(x.sum(), [x, z])


@outcome([[1.0], None, [0.0]])
def grad_of_an_unused_input_allowed(t):
    x, z = leaf(t, 1.0), leaf(t, 1.0)
    a = t.autograd.grad(x.sum(), [x, z], allow_unused=True)
    b = t.autograd.grad(x.sum(), [x, z], materialize_grads=True)
    return a[0], a[1], b[1]


@outcome(Raises("does not require grad"))
def grad_by_an_input_that_requires_none(t):
    x, c = leaf(t, 1.0), t.tensor([1.0])
    t.autograd.grad((x * c).sum(), c)


@outcome([4.0])
def grad_by_a_result_in_the_middle(t):
    x = leaf(t, 1.0)
    y = x * 2
    (g,) = t.autograd.grad((y * y).sum(), y)
    return g


# ---- the graph's life -----------------------------------------------------------------------------------------------------------------

@outcome(Raises("Trying to backward through the graph a second time"))
def a_second_backward(t):
    y = (leaf(t, 1.0) ** 2).sum()
    y.backward()
    y.backward()


@outcome([4.0])
def a_second_backward_with_retain_graph(t):
    x = leaf(t, 1.0)
    y = (x ** 2).sum()
    y.backward(retain_graph=True)
    y.backward()
    return x.grad


@outcome([2.0])
def a_second_backward_where_nothing_was_kept(t):
    x = leaf(t, 1.0)
    y = (x + 1).sum()
    y.backward()
    y.backward()
    return x.grad


@outcome(Raises("Trying to backward through the graph a second time"))
def two_losses_over_one_shared_part(t):
    h = leaf(t, 1.0).exp()
    (h * 2).sum().backward()
    (h * 3).sum().backward()


@outcome([5.0, 5.0])
def two_losses_in_one_backward(t):
    x = leaf(t, 0.0, 0.0)
    h = x.exp()
    ((h * 2).sum() + (h * 3).sum()).backward()
    return x.grad


@outcome([6.0, 6.0, 0.0])
def derivatives_of_higher_order(t):
    x = leaf(t, 1.0)
    d = (x ** 3).sum()
    out = []
    for _ in range(4):
        (d,) = t.autograd.grad(d, x, create_graph=True)
        out.append(d.sum().item())
        d = d.sum()
    return out[1:]


@outcome([True, 12.0])
def create_graph_leaves_a_grad_with_a_history(t):
    x = t.tensor(2.0, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (x ** 3).backward(create_graph=True)
    g = x.grad
    has = g.grad_fn is not None or g.requires_grad
    x.grad = None
    g.backward()
    return has, x.grad


@outcome([3.0, 14.0])
def a_gradient_penalty(t):
    x = leaf(t, 3.0, 2.0)
    y = (x * x * x).sum() / 3
    (g,) = t.autograd.grad(y, x, create_graph=True)
    (g[0].sqrt() + g[1] ** 2 / 4 + y * 0).backward()
    return x.grad[0] * 3, x.grad[1] + 6


# ---- leaves, results, detach ---------------------------------------------------------------------------------------------------------

@outcome([True, True, False, True])
def what_is_a_leaf(t):
    x, c = leaf(t, 1.0), t.tensor([1.0])
    return x.is_leaf, (c * 2).is_leaf, (x * 2).is_leaf, (x * 2).detach().is_leaf


@outcome([None, 1])
def grad_of_a_result_is_none_and_warns(t):
    y = leaf(t, 1.0) * 2
    y.sum().backward()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        g = y.grad
    return g, len([w for w in seen if "not a leaf" in str(w.message)])


@outcome([[6.0], True])
def retain_grad_keeps_it(t):
    x = leaf(t, 1.0)
    y = x * 3
    y.retain_grad()
    (y * y).sum().backward()
    return y.grad, y.retains_grad


@outcome(Raises("retain"))
def retain_grad_of_what_requires_none(t):
    t.tensor([1.0]).retain_grad()


@outcome([False, 0.0])
def detach_cuts_and_shares_memory(t):
    x = leaf(t, 1.0)
    d = x.detach()
    d.zero_()
    return d.requires_grad, x.item()


@outcome([3.0])
def detach_stops_the_gradient(t):
    x = leaf(t, 3.0)
    (x * x.detach()).sum().backward()
    return x.grad


@outcome([True, None])
def detach_in_place_makes_a_leaf(t):
    y = leaf(t, 1.0) * 2
    y.detach_()
    return y.is_leaf, y.grad_fn


@outcome(Raises("you can only change requires_grad flags of leaf variables"))
def switching_off_a_result(t):
    (leaf(t, 1.0) * 2).requires_grad_(False)


@outcome(Raises("floating point"))
def integers_cannot_require_grad(t):
    t.tensor([1, 2]).requires_grad_()


@outcome(Raises("Can't call numpy() on Tensor that requires grad"))
def numpy_of_what_requires_grad(t):
    leaf(t, 1.0).numpy()


@outcome([2.0])
def numpy_shares_memory(t):
    x = t.tensor([1.0])
    x.numpy()[0] = 2
    return x


@outcome([5.0])
def from_numpy_shares_memory(t):
    a = np.array([1.0])
    x = t.from_numpy(a)
    a[0] = 5
    return x


@outcome([1.0])
def tensor_copies(t):
    a = np.array([1.0])
    x = t.tensor(a)
    a[0] = 5
    return x


@outcome([1.0, 2.0])
def clone_passes_gradients_and_has_its_own_memory(t):
    x = leaf(t, 1.0)
    c = x.clone()
    c.add_(1)
    c.sum().backward()
    return x.grad.item(), c.item()


@outcome(Raises("Only Tensors created explicitly by the user"))
def deepcopy_of_a_result(t):
    import copy
    copy.deepcopy(leaf(t, 1.0) * 2)


# ---- modes -------------------------------------------------------------------------------------------------------------------------------

@outcome([False, True, False, True])
def no_grad_and_enable_grad_nest(t):
    x = leaf(t, 1.0)
    with t.no_grad():
        a = (x * 2).requires_grad
        with t.enable_grad():
            b = (x * 2).requires_grad
        c = (x * 2).requires_grad
    return a, b, c, (x * 2).requires_grad


@outcome([False, True])
def no_grad_decorates(t):
    @t.no_grad()
    def f(x):
        return (x * 2).requires_grad
    return f(leaf(t, 1.0)), (leaf(t, 1.0) * 2).requires_grad


@outcome([False, True, False, True])
def set_grad_enabled_as_context_and_call(t):
    x = leaf(t, 1.0)
    with t.set_grad_enabled(False):
        a = (x * 2).requires_grad
    b = (x * 2).requires_grad
    t.set_grad_enabled(False)
    c = (x * 2).requires_grad
    t.set_grad_enabled(True)
    return a, b, c, (x * 2).requires_grad


@outcome(True)
def an_exception_leaves_the_mode_as_it_was(t):
    try:
        with t.no_grad():
            raise KeyError
    except KeyError:
        pass
    return t.is_grad_enabled()


@outcome([True, False, True])
def a_leaf_made_in_no_grad_may_require_grad(t):
    with t.no_grad():
        x = leaf(t, 1.0)
        y = x * 2
    return x.requires_grad, y.requires_grad, (x * 2).requires_grad


test_ours, test_pytorch_says_the_same = table.tests()
