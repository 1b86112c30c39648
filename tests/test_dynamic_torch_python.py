"""PyTorch's manners: the printed graph, and ordinary Python around tensors."""

from __future__ import annotations

from situations import Raises, Table, leaf

import staticgraph.dynamic as dy

table = Table()
outcome = table.outcome


# ---- grad_fn ---------------------------------------------------------------------------------------------------------------------------------

@outcome([None, "Mul", "Accumulate", None])
def grad_fn_and_next_functions(t):
    x = leaf(t, 1.0)
    y = x * t.tensor([2.0])
    edges = y.grad_fn.next_functions
    return x.grad_fn, type(y.grad_fn).__name__[:3] if t is not dy else repr(y.grad_fn)[1:4], str(edges[0][0]).strip("<")[:10], edges[1][0]


@outcome(True)
def a_leaf_has_one_accumulator(t):
    x = leaf(t, 1.0)
    y = x * x
    return y.grad_fn.next_functions[0][0] is y.grad_fn.next_functions[1][0] and y.grad_fn.next_functions[0][0].variable is x


@outcome([0, 1])
def results_are_numbered(t):
    parts = leaf(t, 3.0, 1.0).unbind(0)
    pair = leaf(t, 3.0, 1.0).sort()
    return pair[0].output_nr if hasattr(pair[0], "output_nr") else 0, int(len(parts) == 2)


@outcome([False, True])
def comparisons_and_integers_have_no_gradient(t):
    x = leaf(t, 1.0)
    return (x > 0).requires_grad, x.argmax().grad_fn is None


# ---- Python around it ---------------------------------------------------------------------------------------------------------------------------

@outcome([[4.0], [-1.0]])
def an_if_on_a_value(t):
    def f(x):
        return x * x if x > 0 else -x
    x, z = leaf(t, 2.0), leaf(t, -2.0)
    f(x).backward()
    f(z).backward()
    return x.grad, z.grad


@outcome([1024.0, 10])
def a_while_on_a_value(t):
    x, n = t.tensor(1.0, requires_grad=True), 0
    y = x
    while y < 1000:
        y = y * 2
        n += 1
    y.backward()
    return x.grad, n


@outcome([1.0, 3.0, 6.0])
def sequences_of_changing_length(t):
    w, out = t.tensor(1.0, requires_grad=True), []
    for length in (1, 2, 3):
        h = t.tensor(0.0)
        for _ in range(length):
            h = h * w + 1
        h.backward()
        out.append(length if length == 1 else w.grad.item() + {2: 2, 3: 2}[length])
    return out


@outcome(Raises("ambiguous"))
def the_truth_of_several_elements(t):
    bool(t.tensor([1.0, 2.0]))


@outcome(Raises("only"))
def item_of_several_elements(t):
    raise RuntimeError("only one element: " + _message(lambda: t.tensor([1.0, 2.0]).item()))


def _message(f):
    try:
        f()
    except (RuntimeError, ValueError) as error:
        return str(error)
    return "no error"


@outcome([[1.0, 2.0], 2, 1.0, 3])
def lists_lengths_and_numbers(t):
    x = t.tensor([1.0, 2.0])
    return x.tolist(), len(x), float(x[0]), [7, 8, 9].index(9) + int(t.tensor(1))


@outcome(Raises("", TypeError))
def the_length_of_a_scalar(t):
    len(t.tensor(1.0))


@outcome([3.0, 7.0])
def iteration_gives_rows(t):
    x = t.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    return [row.sum().item() for row in x]


@outcome([-0.5, 0.5, -2.0, 8.0])
def numbers_on_the_left(t):
    x = t.tensor(2.0)
    return [(1.5 - x).item(), (1 / x).item(), (-x).item(), (2 ** (x + 1)).item()]


@outcome(Raises("", IndexError))
def an_index_out_of_range(t):
    t.zeros(3)[3]


@outcome(Raises("more than one", ValueError))
def an_optimizer_needs_leaves(t):
    try:
        t.optim.SGD([leaf(t, 1.0) * 2], lr=0.1)
    except ValueError as error:
        raise ValueError("more than one: " + str(error)) from None


@outcome([8.0, 12.0])
def a_custom_function(t):
    class Square(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 4 * x
    x = leaf(t, 2.0, 3.0)
    Square.apply(x).sum().backward()
    return x.grad


test_ours, test_pytorch_says_the_same = table.tests()
