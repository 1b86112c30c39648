"""PyTorch's manners: changes in place, views, hooks."""

from __future__ import annotations

from situations import Raises, Table, leaf

table = Table()
outcome = table.outcome


# ---- changes in place ------------------------------------------------------------------------------------------------------------------

@outcome(Raises("a leaf Variable that requires grad is being used in an in-place operation"))
def a_leaf_changed_in_place(t):
    leaf(t, 1.0).add_(1)


@outcome(Raises("a leaf Variable that requires grad"))
def a_leaf_changed_by_plus_equals(t):
    x = leaf(t, 1.0)
    x += 1


@outcome(Raises("a view of a leaf Variable that requires grad is being used in an in-place operation"))
def an_element_of_a_leaf_assigned(t):
    x = leaf(t, 1.0, 2.0)
    x[0] = 5


@outcome([0.8, 1.0])
def a_leaf_updated_in_no_grad(t):
    x = leaf(t, 1.0)
    (x * x).sum().backward()
    with t.no_grad():
        x -= 0.1 * x.grad
    return x.item(), float(x.is_leaf)


@outcome([6.0])
def a_result_changed_in_place(t):
    x = leaf(t, 1.0)
    y = x * 2
    y *= 3
    y.sum().backward()
    return x.grad


@outcome([2.0])
def what_was_computed_before_the_change_keeps_its_gradient(t):
    x = leaf(t, 1.0)
    y = x * 2
    z = y + 1
    y.mul_(5)
    z.sum().backward()
    return x.grad


@outcome(Raises("has been modified by an inplace operation"))
def a_kept_operand_changed(t):
    y = leaf(t, 1.0) * 2
    z = (y * y).sum()
    y.add_(1)
    z.backward()


@outcome(Raises("has been modified by an inplace operation"))
def a_kept_result_changed(t):
    y = leaf(t, 1.0).exp()
    y.add_(1)
    y.sum().backward()


@outcome([1.0])
def a_value_that_is_not_needed_changed(t):
    x = leaf(t, 1.0)
    y = x + 1
    z = y + 2
    y.add_(1)
    z.sum().backward()
    return x.grad


@outcome(Raises("has been modified by an inplace operation"))
def changed_through_detach(t):
    y = leaf(t, 1.0) * 2
    z = (y * y).sum()
    y.detach().add_(1)
    z.backward()


@outcome([8.0])
def changed_through_data_is_not_noticed(t):
    x = leaf(t, 1.0)
    y = x * 2
    z = (y * y).sum()
    y.data.add_(0.0)
    z.backward()
    return x.grad


@outcome(Raises("has been modified by an inplace operation"))
def a_kept_operand_changed_through_a_view(t):
    y = leaf(t, 1.0, 2.0) * 2
    z = (y * y).sum()
    y[0] = 0
    z.backward()


@outcome([0, 1, 2, 2])
def versions_count_changes(t):
    x = t.tensor([1.0, 2.0])
    v = [x._version]
    x.add_(1)
    v.append(x._version)
    x[0] = 3
    v.append(x._version)
    return *v, x.detach()._version


@outcome([True, [3.0]])
def a_tensor_without_gradient_takes_one_in_place(t):
    x, b = leaf(t, 3.0), t.zeros(1)
    b += x * x / 2
    b.sum().backward()
    return b.requires_grad, x.grad


@outcome([2.0])
def mul_in_place_keeps_the_old_value(t):
    x, w = leaf(t, 1.0), leaf(t, 5.0)
    y = x * 2
    y.mul_(w)
    y.sum().backward()
    return w.grad


@outcome([0.0])
def zero_in_place_stops_the_gradient(t):
    x = leaf(t, 1.0)
    y = x * 2
    y.zero_()
    y.sum().backward()
    return x.grad


@outcome([[0.0], [3.0]])
def copy_in_place_moves_the_gradient(t):
    x, z = leaf(t, 1.0), leaf(t, 2.0)
    y = x * 2
    y.copy_(z * 3)
    y.sum().backward()
    return x.grad, z.grad


@outcome(Raises("doesn't match the broadcast shape"))
def an_in_place_result_must_fit(t):
    t.zeros(1).add_(t.ones(3))


@outcome(Raises("can't be cast|different dtypes", (RuntimeError, TypeError)))
def an_in_place_result_must_keep_the_dtype(t):
    t.tensor([1, 2]).mul_(t.tensor([1.5, 2.0]))


@outcome(True)
def in_place_gives_the_tensor_itself(t):
    x = t.zeros(2)
    return x.add_(1) is x


# ---- views ---------------------------------------------------------------------------------------------------------------------------------

@outcome([[1.0, 9.0], True])
def a_slice_shares_memory(t):
    x = t.tensor([1.0, 2.0])
    v = x[1:]
    v.fill_(9)
    return x, v._base is x


@outcome([[2.0, 7.0], [2.0, 4.0]])
def reshapes_and_transposes_share_memory(t):
    x = t.tensor([[1.0, 2.0], [3.0, 4.0]])
    x.T[0] = 7.0
    x.reshape(4)[1] = 2.0
    x.view(-1)[0] = 2.0
    return x.T


@outcome([[2.0, 0.0], [5.0]])
def an_element_assigned_gets_the_gradient(t):
    x, w = leaf(t, 1.0, 2.0), leaf(t, 3.0)
    y = x * 2
    y[1] = w[0] * 5
    y.sum().backward()
    return x.grad, w.grad


@outcome([2.0, 20.0])
def a_view_changed_in_place_changes_the_base(t):
    x = leaf(t, 1.0, 1.0)
    y = x * 2
    y[1:].mul_(10)
    y.sum().backward()
    return x.grad


@outcome([[20.0, 2.0], [10.0]])
def a_base_changed_in_place_changes_its_views(t):
    x = leaf(t, 1.0, 1.0)
    y = x * 2
    v = y[:1]
    y.mul_(t.tensor([10.0, 1.0]))
    (g,) = t.autograd.grad(v.sum() * 1, y, retain_graph=True)
    y.sum().backward()
    return x.grad, g[:1] * 10


@outcome(["CopySlices", True])
def the_history_of_a_base_after_a_change_of_its_view(t):
    y = leaf(t, 1.0, 1.0) * 2
    v = y[0]
    before = type(v.grad_fn).__name__
    y[1].add_(1)
    after = v.grad_fn
    return repr(y.grad_fn).strip("<>").split()[0].replace("Backward0", ""), after is not None and before is not None


@outcome([0.0, 3.0, 6.0])
def rows_collected_by_assignment(t):
    x, out = leaf(t, 1.0), t.zeros(3)
    for k in range(3):
        out[k] = x[0] * 3 * k
    out.sum().backward()
    assert x.grad.item() == 9
    return out


@outcome([2.0, 2.0, 0.0])
def a_mask_assigned(t):
    x = leaf(t, 1.0, 2.0, 3.0)
    y = x * 2
    y[t.tensor([False, False, True])] = 0.0
    y.sum().backward()
    return x.grad


@outcome([3.0, 1.0, 0.0])
def indices_repeat(t):
    x = leaf(t, 1.0, 2.0, 3.0)
    x[t.tensor([0, 0, 1, 0])].sum().backward()
    return x.grad


@outcome(Raises("A view was created in no_grad mode"))
def a_view_made_in_no_grad_changed_outside(t):
    y = leaf(t, 1.0, 2.0) * 1
    with t.no_grad():
        v = y[0]
    v.mul_(2)


@outcome(Raises("Can't detach views in-place"))
def a_view_detached_in_place(t):
    (leaf(t, 1.0, 2.0) * 1)[0:1].detach_()


@outcome(Raises("not compatible with input tensor's size and stride"))
def view_of_what_is_not_contiguous(t):
    t.ones(2, 3).t().view(6)


# ---- hooks -----------------------------------------------------------------------------------------------------------------------------------

@outcome([[2.0], [[1.0]]])
def a_hook_sees_and_changes_the_gradient(t):
    x, seen = leaf(t, 1.0), []
    x.register_hook(lambda g: seen.append(g.tolist()))
    x.register_hook(lambda g: g * 2)
    x.sum().backward()
    return x.grad, seen


@outcome([[3.0], [1.0]])
def a_hook_removed(t):
    x = leaf(t, 1.0)
    h = x.register_hook(lambda g: g * 3)
    x.sum().backward()
    first = x.grad
    h.remove()
    x.grad = None
    x.sum().backward()
    return first, x.grad


@outcome([20.0])
def a_hook_on_a_result(t):
    x = leaf(t, 1.0)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    y.sum().backward()
    return x.grad


@outcome([[10.0], [20.0]])
def retain_grad_sees_what_hooks_made(t):
    x = leaf(t, 1.0)
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.sum().backward()
    return y.grad, x.grad


@outcome([[2.0], [[1.0]]])
def a_hook_from_before_a_change_sees_the_old_value(t):
    x, seen = leaf(t, 1.0), []
    y = x * 2
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.add_(1)
    y.sum().backward()
    return x.grad, seen


@outcome(Raises("cannot register a hook on a tensor that doesn't require gradient"))
def a_hook_where_there_is_no_gradient(t):
    t.tensor([1.0]).register_hook(lambda g: g)


@outcome([["b", "a"], [6.0]])
def hooks_run_from_the_result_to_the_leaf(t):
    order, x = [], leaf(t, 1.0)
    y = x * 2
    x.register_hook(lambda g: order.append("a"))
    y.register_hook(lambda g: order.append("b"))
    (y * 3).sum().backward()
    return order, x.grad


@outcome(0.5)
def a_post_accumulate_hook_updates_and_forgets(t):
    x = leaf(t, 1.0)

    def step(p):
        with t.no_grad():
            p -= 0.5 * p.grad
        p.grad = None
    x.register_post_accumulate_grad_hook(step)
    x.sum().backward()
    return x.item() if x.grad is None else "kept"


@outcome([[4.0], 1])
def a_hook_on_a_grad_fn(t):
    calls, x = [], leaf(t, 1.0)
    y = x * 2
    y.grad_fn.register_hook(lambda inputs, outputs: calls.append(1) or tuple(None if g is None else g * 2 for g in inputs))
    y.sum().backward()
    return x.grad, len(calls)


test_ours, test_pytorch_says_the_same = table.tests()


def test_there_are_enough_situations():
    from test_dynamic_torch import table as first
    from test_dynamic_torch_python import table as last
    assert len(first) + len(table) + len(last) >= 100
