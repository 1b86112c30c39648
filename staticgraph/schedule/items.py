"""From nodes to items: views are resolved, so that what is left reads values through strides and computes something.

An item is one computation (elementwise, reduction, matrix product, loops of its own, control flow, host call) or a leaf. Copies
are items too: they appear where an op needs its operand contiguous and the view is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..dtypes import float16, float32
from ..errors import InternalError_, UnimplementedError
from ..ir.aval import Aval, Dim, Size, TupleAval, measured_in, product
from ..ir.graph import Node, Region
from ..ir.opdef import Control, Host, Loops, Matmul, NoRule, Reduce, Scalar, Windows
from ..ir.opdef import View as ViewLowering
from ..ir.substitute import named
from .views import View, collapse, contiguous

ROW_BLOCK = 4096                             # elements of one block of a reduction along a row
COLUMN_BLOCK = 1024                          # and down a column


def _itself(e: Any, x: Any) -> Any:
    return x


def _plus_zero(e: Any, x: Any) -> Any:
    return e.add(x, 0)


def _rounded(e: Any, x: Any) -> Any:
    return e.cast(x, float16)


PLAIN = (_itself, _plus_zero, _rounded)                # of items that are not what their node's op says


@dataclass(eq=False)
class Value:
    """One result of an item. ``buffer`` is set where it lives in memory."""

    item: Item
    index: int
    aval: Aval
    buffer: Any = None
    users: int = 0

    def whole(self) -> View:
        """All of it."""
        return View.whole(self, self.aval.shape)


@dataclass(eq=False)
class Item:
    """One computation. ``emit(e, *values)`` is given for elementwise ones."""

    kind: str                                # leaf, scalar, turn, reduce, matmul, loops, control, host
    node: Node
    operands: list[View] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    emit: Any = None
    group: Any = None
    axis: tuple[int, ...] = ()               # reduce: the operand's axes to reduce (none of size 1)
    combine: str = ""                        # reduce: add, mul, maximum, minimum, and, or
    blocked: bool = False                    # reduce: one result per block of the run

    @property
    def value(self) -> Value:
        """The only result."""
        return self.values[0]

    @property
    def shape(self) -> tuple[Any, ...]:
        """Shape of the first result."""
        return self.values[0].aval.shape


def _avals(node: Node) -> tuple[Aval, ...]:
    return node.aval.elements if isinstance(node.aval, TupleAval) else (node.aval,)


class ItemBuilder:
    """Items of one node list (a graph or a region)."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.views: dict[Node, Any] = {}     # a View, or a list of Views for an op with several outputs
        self.copies: dict[Value, Value] = {}                 # of leaves, for run-time offsets

    def add(self, kind: str, node: Node, operands: Sequence[View], emit: Any = None, avals: Sequence[Aval] | None = None) -> Item:
        item = Item(kind, node, list(operands), emit=emit)
        item.values = [Value(item, k, a) for k, a in enumerate(avals if avals is not None else _avals(node))]
        for v in operands:
            v.base.users += 1
        self.items.append(item)
        return item

    def leaf(self, node: Node) -> Item:
        """A value supplied from outside of the node list."""
        item = self.add("leaf", node, ())
        self.views[node] = item.value.whole()
        return item

    def dense(self, view: View, node: Node) -> View:
        """The view, copied if it is not contiguous."""
        if view.is_contiguous:
            return view
        return self.dense_copy(view, node)

    def visit(self, node: Node) -> None:
        """Make the node's item or view."""
        lower = node.op.lower
        if isinstance(lower, Control) and lower.kind == "get":
            self.views[node] = self.views[node.inputs[0]][node.attr("index")]
            return
        ins = [self.views[i] for i in node.inputs]
        if isinstance(lower, ViewLowering):
            view = lower.view(ins[0], node.aval, **node.kw)
            view = view if view is not None else lower.view(self.dense(ins[0], node), node.aval, **node.kw)
            self.views[node] = self.own(view, node) if isinstance(view.offset, Dim) and view.base.item.kind == "leaf" else view
            return
        if isinstance(lower, Scalar):
            kw = node.kw
            if "index" in node.op.traits:
                ins = [self.index(node)]
            emit = (lambda e, *xs: lower.emit(e, *xs, **kw)) if kw else lower.emit
            item = self.add("scalar", node, [v.broadcast(node.shape) for v in ins], emit=emit)
        elif isinstance(lower, Reduce):
            self.views[node] = self.reduce(ins[0], node, lower.combine)
            return
        elif isinstance(lower, (Matmul, Windows)):
            self.views[node] = self.product(ins, node)
            return
        elif isinstance(lower, Loops):
            item = self.add("loops", node, [self.dense(v, node) for v in ins])
        elif isinstance(lower, Host):
            item = self.add("host", node, [*(self.dense(v, node) for v in ins), *self.before(node)])
        elif isinstance(lower, Control):
            item = self.add("control", node, [*(self.dense(v, node) for v in ins), *self.before(node)])
        elif isinstance(lower, NoRule):
            raise UnimplementedError(None, None, f"operation {node.op.name!r} has no native code: {lower.why}")
        else:
            raise InternalError_(f"{node!r} should have been expanded before scheduling")
        views = [v.whole() for v in item.values]
        self.views[node] = views if isinstance(node.aval, TupleAval) else views[0]

    def product(self, ins: Sequence[View], node: Node) -> View:
        """A matrix product or a correlation; of float16 it is one of float32, rounded at the end."""
        half = node.aval.dtype is float16
        wide = node.aval.with_dtype(float32) if half else node.aval
        if half:
            ins = [self.add("scalar", node, (v,), emit=_itself, avals=(v.base.aval.with_shape(v.shape).with_dtype(float32),)).value.whole() for v in ins]
        operand = self.matrix if isinstance(node.op.lower, Matmul) else self.dense
        out = self.add("matmul", node, [operand(v, node) for v in ins], avals=(wide,)).value.whole()
        return self.add("scalar", node, (out,), emit=_rounded, avals=(node.aval,)).value.whole() if half else out

    def own(self, view: View, node: Node) -> View:
        """A view at a run-time offset into a caller's memory, moved to a copy of that memory: only addresses of our own can be computed by a run."""
        leaf = view.base
        if leaf not in self.copies:
            self.copies[leaf] = self.dense_copy(leaf.whole(), node).base
        return View(self.copies[leaf], view.shape, view.strides, view.offset)

    def before(self, node: Node) -> list[View]:
        """A value of each effect that must come before: operands that only order."""
        views = (self.views[c] for c in node.control)
        return [v[0] if isinstance(v, list) else v for v in views]

    def index(self, node: Node) -> View:
        """The position along the node's axis, as an operand that is computed, not loaded."""
        from ..dtypes import int32, int64
        axis, shape = node.attr("axis"), node.shape
        small = all(isinstance(d, int) for d in shape) and all(d < 2**31 for d in shape)
        item = self.add("index", node, (), avals=(Aval(shape, int32 if small else int64),))
        return View(item.value, shape, tuple(int(k == axis and d != 1) for k, d in enumerate(shape)))

    def reduce(self, view: View, node: Node, combine: str) -> View:
        """A reduction, one run of neighbouring axes at a time (the last first), long runs in blocks.

        A block is a result of its own: blocks are the tasks of the kernel, and the next reduction combines them.
        """
        from ..ops.helpers import normalize_axes
        axes = set(normalize_axes(node.attr("axis"), len(view.shape)))
        todo = [k for k in axes if view.shape[k] != 1]
        if not todo:
            result = view.reshape(node.shape)
            assert result is not None
            emit = _plus_zero if combine == "add" else _itself
            return self.add("scalar", node, (result,), emit=emit, avals=(node.aval,)).value.whole()
        while todo:
            walked = [k for k, d in enumerate(view.shape) if d != 1]
            last = max(todo)
            run = [last]
            for k in reversed([w for w in walked if w < last]):
                if k not in todo:
                    break
                run.insert(0, k)
            view = self._reduce_run(view, tuple(run), last == walked[-1], node, combine)
            todo = [k for k in todo if k not in run]
        out = view.reshape(node.shape)
        assert out is not None
        return out

    def _reduce_run(self, view: View, run: tuple[int, ...], trailing: bool, node: Node, combine: str) -> View:
        block = ROW_BLOCK if trailing else COLUMN_BLOCK
        phases = 0
        while True:
            length = product(view.shape[k] for k in run)
            if len(collapse([view.shape[k] for k in run], [[view.strides[k] for k in run]])[0]) > 1:
                view = self.dense_copy(view, node)
            blocked = length > block if isinstance(length, int) else phases < 2
            count = (length + (block - 1)) // block if blocked else 1
            shape = tuple((count if k == run[0] else 1) if k in run else d for k, d in enumerate(view.shape))
            item = self.add("reduce", node, (view,), avals=(view.base.aval.with_shape(shape),))
            item.axis, item.combine, item.blocked = run, combine, blocked
            view = item.value.whole()
            if not blocked or count == 1:
                return view
            run = (run[0],)
            phases += 1

    def matrix(self, view: View, node: Node) -> View:
        """A GEMM operand: one of its last two axes must be contiguous, and its batch axes (stretched) must walk as one."""
        view = view.broadcast((*node.shape[:-2], *view.shape[-2:]))
        rows, cols = view.strides[-2:]
        r, c = view.shape[-2:]
        # the other axis must be walked: a product knows no stride of 0 (a broadcast axis is copied), but where there is one row only
        fine = ((cols == 1 or c == 1) and (r == 1 or _positive(rows))) or ((rows == 1 or r == 1) and (c == 1 or _positive(cols)))
        if fine and len(view.shape) > 3:
            fine = len(collapse(view.shape[:-2], [view.strides[:-2]])[0]) <= 1
        return view if fine else self.dense_copy(view, node)

    def dense_copy(self, view: View, node: Node) -> View:
        """The view as a value of its own."""
        aval = view.base.aval.with_shape(view.shape)
        if turned_axes(view) is not None:
            return self.add("turn", node, (view,), avals=(aval,)).value.whole()
        return self.add("scalar", node, (view,), emit=_itself, avals=(aval,)).value.whole()


Turned = tuple[tuple[Size, ...], tuple[Size, ...], tuple[Size, ...], int]


def turned_axes(view: View) -> Turned | None:
    """Where a copy of the view turns an axis: (collapsed sizes, strides in the source and in the copy, the source's contiguous axis)."""
    dtype = view.base.aval.dtype
    if dtype.kind not in "fiu" or dtype.size not in (4, 8):
        return None
    sizes, (source, dest) = collapse(view.shape, [view.strides, contiguous(view.shape)])
    across = next((k for k, (n, s) in enumerate(zip(sizes, source)) if s == 1 and isinstance(n, int) and n >= 4), None)
    if across is None or across == len(sizes) - 1 or source[-1] == 0 or not isinstance(sizes[-1], int) or sizes[-1] < 4:
        return None
    return sizes, source, dest, across


def _positive(stride: Any) -> bool:
    return not isinstance(stride, int) or stride > 0


def build_items(nodes: Sequence[Node], leaves: Sequence[Node]) -> ItemBuilder:
    """Items of ``nodes`` in order; ``leaves`` are supplied from outside."""
    builder = ItemBuilder()
    outside = set(leaves)
    for n in nodes:
        kind = n.op.lower.kind if isinstance(n.op.lower, Control) else ""
        if n in outside or kind in ("input", "param", "const"):
            builder.leaf(n)
        elif kind == "sizes":
            builder.views[n] = builder.add("sizes", n, ()).value.whole()
        else:
            builder.visit(n)
    return builder


def named_sizes(item: Item) -> set[str]:
    """Measured sizes that an item's kernel reads: it runs after what measures them."""
    names = named(item.node.attrs, item.node.aval).union(*(measured_in(v.aval) for v in item.values))
    names = names.union(*(measured_in((*v.shape, *v.strides, v.offset)) for v in item.operands))
    return names - set(measured_in(item.node.attr("size"))) if "measure" in item.node.op.traits else names


def regions_of(node: Node) -> tuple[Region, ...]:
    """Regions among the node's attributes."""
    return node.regions
