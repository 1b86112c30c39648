"""One way of writing for what is one computation: moves composed, operands of commutative ops in order. No bit changes."""

from __future__ import annotations

from typing import Any

from staticgraph.ir.graph import Graph, Node
from staticgraph.ir.opdef import OPS
from staticgraph.ir.rewrite import Rule, rewrite, rule
from staticgraph.ops import linalg, logic, shape, state

from .base import PassContext, graph_pass

# ---- moves -----------------------------------------------------------------------------------------------------------------


@rule(state.identity, state.stop_gradient)
def drop_identity(b: Any, n: Node) -> Node | None:
    """identity(x) is x once gradients are taken."""
    return n.inputs[0]


@rule(shape.reshape)
def reshape_of_reshape(b: Any, n: Node) -> Node | None:
    """Only the last shape counts; the same shape is no move at all."""
    x = n.inputs[0]
    if x.shape == n.shape:
        return x
    return b.reshape(x.inputs[0], shape=n.shape) if x.op is shape.reshape else None


@rule(shape.transpose)
def transpose_of_transpose(b: Any, n: Node) -> Node | None:
    """Permutations compose; the identity permutation is no move."""
    perm, x = n.attr("perm"), n.inputs[0]
    if perm == tuple(range(len(perm))):
        return x
    if x.op is shape.transpose:
        inner = x.attr("perm")
        return b.transpose(x.inputs[0], perm=tuple(inner[p] for p in perm))
    return None


@rule(shape.broadcast_to)
def broadcast_of_broadcast(b: Any, n: Node) -> Node | None:
    """Only the last shape counts; the same shape is no move."""
    x = n.inputs[0]
    if x.shape == n.shape:
        return x
    return b.broadcast_to(x.inputs[0], shape=n.shape) if x.op is shape.broadcast_to else None


@rule(*(op for op in OPS.values() if op.is_elementwise and len(op.signature[0]) > 1 and "guard" not in op.traits))
def drop_broadcast(b: Any, n: Node) -> Node | None:
    """An elementwise op stretches its operands by itself: where another operand has the full shape, broadcast_to is no move."""
    ins = list(n.inputs)
    for k, x in enumerate(ins):
        if x.op is shape.broadcast_to and any(i.shape == n.shape for j, i in enumerate(ins) if j != k):
            ins[k] = x.inputs[0]
    return b.call(n.op, *ins, **n.kw) if ins != list(n.inputs) else None


@rule(shape.slice_)
def full_slice(b: Any, n: Node) -> Node | None:
    """A slice of everything is no move."""
    x = n.inputs[0]
    whole = n.shape == x.shape and all(a == 0 for a in n.attr("starts")) and all(s == 1 for s in n.attr("steps"))
    return x if whole else None


@rule(shape.concat)
def concat_of_one(b: Any, n: Node) -> Node | None:
    """concat of one value is that value."""
    return n.inputs[0] if len(n.inputs) == 1 else None


@rule(shape.pad)
def empty_pad(b: Any, n: Node) -> Node | None:
    """A pad by nothing is no move."""
    return n.inputs[0] if n.shape == n.inputs[0].shape and all(g == 0 for g in n.attr("between")) else None


@rule(shape.reverse)
def reverse_of_reverse(b: Any, n: Node) -> Node | None:
    """Reversing the same axes twice is no move."""
    x = n.inputs[0]
    return x.inputs[0] if x.op is shape.reverse and x.attrs == n.attrs else None


@rule(logic.cast)
def drop_cast(b: Any, n: Node) -> Node | None:
    """A cast to the same dtype is no cast."""
    return n.inputs[0] if n.inputs[0].dtype == n.dtype else None


# ---- operands ----------------------------------------------------------------------------------------------------------------


@rule(*(op for op in OPS.values() if "commutative" in op.traits))
def operands_in_order(b: Any, n: Node) -> Node | None:
    """Operands of a commutative op: the older one left, constants right, so that x + y and y + x are one node."""
    x, y = n.inputs
    # of two unknown sizes that a run will find equal, the result has the first one's name: it must keep it
    if (x.op is state.const, x.id) > (y.op is state.const, y.id) and n.op.infer(y.aval, x.aval, **n.kw) == n.aval:
        return b.call(n.op, y, x, **n.kw)
    return None


@rule(linalg.matmul)
def absorb_transpose(b: Any, n: Node) -> Node | None:
    """A transpose of the last two axes becomes the product's flag."""
    for side, flag in ((0, "transpose_a"), (1, "transpose_b")):
        x = n.inputs[side]
        if x.op is not shape.transpose:
            continue
        perm = x.attr("perm")
        rank = len(perm)
        if rank >= 2 and perm == (*range(rank - 2), rank - 1, rank - 2):
            ins = list(n.inputs)
            ins[side] = x.inputs[0]
            return b.matmul(*ins, **{**n.kw, flag: not n.attr(flag)})
    return None


@rule(linalg.matmul)
def merge_batch(b: Any, n: Node) -> Node | None:
    """A batch of rows against one matrix is one taller product (bits of a product do not depend on its height)."""
    x, y = n.inputs
    if n.attr("transpose_a") or len(x.shape) < 3 or len(y.shape) != 2:
        return None
    rows = b.reshape(x, shape=(_product(x.shape[:-1]), x.shape[-1]))
    return b.reshape(b.matmul(rows, y, transpose_a=False, transpose_b=n.attr("transpose_b")), shape=n.shape)


def _product(sizes: Any) -> Any:
    from staticgraph.ir.aval import product
    return product(sizes)


RULES: tuple[Rule, ...] = tuple(v for v in list(globals().values()) if isinstance(v, Rule))


@graph_pass(needs={"pure"}, gives={"canonical"})
def canonicalize(g: Graph, context: PassContext) -> Graph:
    """Write by the rules of this file; merging, folding and fusing then meet fewer forms.

        %0: f32[3] = input(aval=aval('f32[3]'), index=0)  ->  %0: f32[3] = input(aval=aval('f32[3]'), index=0)
        %1: f32[3] = exp(%0)                               |  %1: f32[3] = exp(%0)
        %2: f32[3] = add(%0, %1)                           |  %2: f32[3] = add(%0, %1)
        %3: f32[3] = add(%1, %0)                           |  %3: f32[3] = mul(%2, %2)
        %4: f32[3] = mul(%2, %3)                           |  return %3
        return %4                                          |
    """
    from .dce import dce
    return dce(rewrite(g, RULES, log=context.log), context)
