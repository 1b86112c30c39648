"""From a pure graph to steps: items, groups, their order, kernels, and the jumps of control flow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..errors import InternalError_
from ..ir.aval import Aval, Dim, Size, measured_in, upper_bound
from ..ir.graph import ArrayAttr, Node, Region
from ..ir.opdef import Control, Loops
from ..schedule.fuse import Group, group_items, is_direct
from ..schedule.items import Item, ItemBuilder, Value, build_items
from ..schedule.merge import merge_groups
from ..schedule.order import Targets, order
from ..schedule.steps import Buffer, CheckStep, CommitStep, CopyStep, HostStep, KernelStep, SameStep, Step
from ..schedule.views import contiguous
from .custom import custom_kernel, sizes_kernel
from .kernel import CheckId, Kernel
from .loops import loop_kernel
from .matmul import gemm_kernels
from .reuse import Kernels
from .target import Target
from .turn import turn_kernel

PARALLEL = 1 << 15                           # cost below which a kernel's tasks are not worth sharing


class Lowering:
    """Steps, buffers, constants and checks of one executable."""

    def __init__(self, target: Target, fuse: bool = True) -> None:
        self.target, self.fuse = target, fuse
        self.steps: list[Step] = []
        self.buffers: list[Buffer] = []
        self.joined: dict[Buffer, list[Value]] = {}      # values that live in a buffer because an op overwrites them
        self.constants: dict[ArrayAttr, Buffer] = {}
        self.checks: dict[Node, int] = {}
        self.kernels: list[Kernel] = []
        self.written = Kernels()
        self.hosts: list[Item] = []
        self.loops: list[tuple[int, int]] = []           # step ranges that run many times
        self.bounds: dict[str, Size] = {}                # of measured sizes: memory is laid out for them
        self.committed = False

    def buffer(self, aval: Aval, name: str = "") -> Buffer:
        """A new buffer in the arena."""
        b = Buffer("ws", upper_bound(bytes_of(aval), self.bounds), name=name)
        self.buffers.append(b)
        return b

    def constant(self, value: ArrayAttr) -> Buffer:
        """The buffer of a constant; equal constants share it."""
        found = self.constants.get(value)
        if found is None:
            found = self.constants[value] = Buffer("const", value.array.nbytes, len(self.constants))
        return found

    # ---- one node list -----------------------------------------------------------------------------------------------------------

    def lower(self, nodes: Sequence[Node], bound: Mapping[Node, Buffer], targets: Sequence[tuple[Node, Buffer]]) -> bool:
        """Append the steps that compute ``nodes`` (leaves are ``bound``) and leave each target's node in its buffer.

        Returns whether something in it can fail.
        """
        self.bounds.update((s, n.attr("bound")) for n in nodes if "measure" in n.op.traits for s in measured_in(n.attr("size")))
        builder = build_items(nodes, list(bound))
        for n, b in bound.items():
            if n in builder.views:
                builder.views[n].base.buffer = b
        for n in nodes:
            kind = n.op.lower.kind if isinstance(n.op.lower, Control) else ""
            if kind == "const":
                builder.views[n].base.buffer = self.constant(n.attr("value"))
        wanted = self._target_values(builder, targets)
        groups = group_items(builder.items, self.fuse)
        if self.fuse:
            fixed = {v.item.group for v, b in wanted if b.space != "out"} | {g for g in groups if self._may_fail(g)}
            groups = merge_groups(groups, builder.items, fixed, {v for v, _ in wanted})
        self._store(groups, wanted)
        plan = Targets()
        late: list[tuple[Value, Buffer]] = []
        # a caller's buffer is addressed at places known when the program is written
        moving = {v.base for g in groups for item in g.items for v in item.operands if isinstance(v.offset, Dim)}
        for value, target in wanted:
            group = value.item.group
            failing = self._may_fail(group)
            if _overwrites(group, target, value) and not (target.space == "state" and failing) and not (target.space != "ws" and value in moving):
                plan.add(target, group, value)
                value.buffer = target
            else:
                value.buffer = self.buffer(value.aval, value.item.node.op.name)
                late.append((value, target))
        self._assign(groups)
        own = set(groups)
        for target, value in list(plan.value.items()):
            plan.along[target] = [v for v in self.joined.get(target, ()) if v.item.group in own]
            if not all(_overwrites(g, target, value) for g in plan.writers(target)):
                plan.drop(target)
                self.buffers.append(value.buffer)
                late.append((value, target))
        readers: dict[Buffer, list[Group]] = {}
        for g in groups:
            for item in g.items:
                for v in item.operands:
                    if v.base.buffer is not None and v.base.item.kind == "leaf":     # what stands there before it is overwritten
                        readers.setdefault(v.base.buffer, []).append(g)
        failing_groups = {g for g in groups if self._may_fail(g)}
        before = dict(plan.value)
        ordered = order(groups, plan, readers, failing_groups)
        for target, value in before.items():
            if target not in plan.value:
                self.buffers.append(value.buffer)
                late.append((value, target))
        can_fail = False
        for g in ordered:
            if any(b.space == "state" for b, w in plan.writer.items() if w is g):
                self._commit()
            can_fail |= self._group(g)
        for value, target in late:
            if target.space == "state":
                self._commit()
            self.steps.append(CopyStep(target, value.buffer, bytes_of(value.aval)))
        return can_fail

    def _commit(self) -> None:
        if not self.committed:
            self.committed = True
            self.steps.append(CommitStep())

    def _target_values(self, builder: ItemBuilder, targets: Sequence[tuple[Node, Buffer]]) -> list[tuple[Value, Buffer]]:
        """The value of each target, a value of its own (leaves and values wanted twice are copied)."""
        out: list[tuple[Value, Buffer]] = []
        taken: set[Value] = set()
        for node, target in targets:
            view = builder.views[node]
            value = view.base
            if value.item.kind == "leaf" and value.buffer is target and view.is_contiguous:
                continue                     # it is there already
            whole = view.offset == 0 and view.is_contiguous and view.base.aval.size == node.aval.size
            if value.item.kind in ("leaf", "index") or value in taken or not whole:
                value = builder.dense_copy(view, node).base
            taken.add(value)
            out.append((value, target))
        return out

    def _store(self, groups: Sequence[Group], wanted: Sequence[tuple[Value, Buffer]]) -> None:
        """Mark the values that live in memory: those used by another group, and targets."""
        self.stored: set[Value] = {v for v, _ in wanted}
        for g in groups:
            for item in g.items:
                if g.kind == "single":
                    self.stored |= set(item.values)
                self.stored |= {v.base for v in item.operands
                                if v.base.item.group is not g and v.base.item.kind not in ("leaf", "index")}
                if item.blocked:
                    self.stored |= set(item.values)

    def _assign(self, groups: Sequence[Group]) -> None:
        for g in groups:
            for item in g.items:
                for value in item.values:
                    if value in self.stored and value.buffer is None:
                        value.buffer = self.buffer(value.aval, item.node.op.name)
            self._alias(g)

    def _alias(self, g: Group) -> None:
        # an op that overwrites an operand takes its buffer if nobody else reads that value
        item = g.items[0]
        lower = item.node.op.lower
        if item.kind != "loops" or not isinstance(lower, Loops) or lower.alias is None:
            return
        operand = item.operands[lower.alias].base
        if operand.users == 1 and operand.item.group is not None and operand.buffer.space == "ws" and operand.item.kind != "leaf":
            old, new = operand.buffer, item.value.buffer
            if old in self.buffers:
                self.buffers.remove(old)
            joined = [operand, *self.joined.pop(old, ())]        # what it overwrote itself goes along
            for v in joined:
                v.buffer = new
            self.joined.setdefault(new, []).extend(joined)

    def _may_fail(self, g: Group) -> bool:
        return any(_fails(i.node) for i in g.items)

    # ---- one group ------------------------------------------------------------------------------------------------------------------

    def _group(self, g: Group) -> bool:
        item = g.items[0]
        if g.kind == "loop":
            return self._kernels(g, lambda: [loop_kernel(g, self.target)])
        if g.kind == "gemm":
            return self._kernels(g, lambda: gemm_kernels(g, self.target))
        if item.kind == "turn":
            return self._kernels(g, lambda: [turn_kernel(item, self.target)])
        if item.kind == "sizes":
            return self._kernel(sizes_kernel(item, self.target), g)
        if item.kind == "loops":
            lower = item.node.op.lower
            assert isinstance(lower, Loops)
            if lower.alias is not None:
                source = item.operands[lower.alias].base.buffer
                if source is not item.value.buffer:
                    self.steps.append(CopyStep(item.value.buffer, source, bytes_of(item.value.aval)))
            if "sizes" in item.node.op.traits:
                self.steps += [SameStep(item.node, p, q) for p, q in item.node.attr("pairs") if p is not q]
                self.checks.setdefault(item.node, len(self.checks))
            return self._kernels(g, lambda: [custom_kernel(item, self.target)])
        if item.kind == "host":
            self.hosts.append(item)
            if self.checks:
                self.steps.append(CheckStep())           # Python sees no value that stands for one that is not there
            self.steps.append(HostStep(item, [v.base.buffer for v in item.operands[:len(item.node.inputs)]], [v.buffer for v in item.values]))
            return True
        from .control import lower_control
        return lower_control(self, item)

    def _kernels(self, g: Group, make: Callable[[], list[Kernel]]) -> bool:
        failing = [self._kernel(k, g) for k in self.written.of(g, make)]
        return any(failing)

    def _kernel(self, kernel: Kernel, g: Group) -> bool:
        for value in kernel.scratch:
            if value.buffer is None:
                value.buffer = self.buffer(value.aval, "scratch of " + kernel.title)
        for o in kernel.operands:
            if isinstance(o, CheckId):
                self.checks.setdefault(o.node, len(self.checks))
        work = kernel.work
        parallel = kernel.tasks != 1 and (not isinstance(work, int) or work >= PARALLEL)
        self.kernels.append(kernel)
        self.steps.append(KernelStep(kernel, g, parallel))
        if kernel.guarded and self.inside_loop:
            self.steps.append(CheckStep())
        return kernel.guarded

    inside_loop = False


def bytes_of(aval: Aval) -> Size:
    """Bytes of a dense value."""
    return aval.size * aval.dtype.size


def _fails(node: Node) -> bool:
    from ..ir.opdef import Host
    if "guard" in node.op.traits or isinstance(node.op.lower, Host):
        return True
    return any(_fails(n) for r in node.regions for n in r.nodes)


def _overwrites(group: Group, target: Buffer, value: Value) -> bool:
    """Whether the group may write ``target`` although it reads its old value: only element by element."""
    for item in group.items:
        for k, v in enumerate(item.operands):
            if v.base.buffer is not target:
                continue
            if group.kind == "loop":
                if group.axes is not None or not is_direct(v, group.domain):
                    return False
            elif group.kind == "gemm":
                if item.kind == "matmul" or v.strides != contiguous(v.shape) or v.offset != 0:
                    return False
            elif isinstance(item.node.op.lower, Control) and item.node.op.lower.kind == "cond" and target.space == "ws":
                continue                     # each branch has an order of its own, and copies where it cannot overwrite in place
            else:
                lower = item.node.op.lower
                if item.kind != "loops" or not isinstance(lower, Loops) or lower.alias != k:
                    return False
    return True


def region_steps(low: Lowering, region: Region, operands: Sequence[Buffer], targets: Sequence[Buffer]) -> bool:
    """Append a region's steps: parameters read ``operands``, results go to ``targets``."""
    if len(operands) != len(region.params) or len(targets) != len(region.results):
        raise InternalError_(f"region of {len(region.params)} parameters given {len(operands)} operands")
    return low.lower(region.nodes, dict(zip(region.params, operands)), list(zip(region.results, targets)))
