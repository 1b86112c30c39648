"""Matrix products of a group: the generated GEMM, with the group's elementwise items as its epilogue."""

from __future__ import annotations

from typing import Any

from ..ir.aval import Size, product
from ..ir.opdef import Windows
from ..schedule.fuse import Group
from ..schedule.items import Item, Value
from ..schedule.views import View, collapse, contiguous
from .gemm import GemmSpec, gemm
from .kernel import BufferAt, Imm, Index, Kernel, KernelEmitter, SizeOf
from .target import Target
from .values import Val


class EpilogueEmitter(KernelEmitter):
    """An emitter whose first operands are the product's own."""

    def __init__(self, target: Target, group: Group, operands: list[Any], spec: GemmSpec) -> None:
        super().__init__(target)
        self.group = group
        self.spec = spec
        self.operands = list(operands)
        self.current: Item | None = None
        self.element: Index = 0

    def guard(self, value: Val, ok: Val, *, message: str, limit: Size, fill: int) -> Val:
        """As in loop kernels: report and go on with ``fill``."""
        bad = self.not_(ok)
        if self.mask_now is not None:
            bad = self.and_(bad, self.mask_now)
        assert self.current is not None
        self.report_lanes(self.current.node, bad, self.element, value, self.size(limit))
        return self.select(ok, value, self.const(value.dtype, fill, value.lanes))

    def sink(self, acc: Val, row: Index, col: Index, lanes: int, mask: Val | None, batch: Index = 0) -> None:
        """Called with finished elements (batch, row, col .. col + lanes): compute the epilogue and store."""
        outer = [self.size(s) for s in self.group.items[0].shape[:-2]]
        self.finish(acc, [*self.split(batch, outer), row, col], lanes, mask)

    def finish(self, acc: Val, where: list[Index], lanes: int, mask: Val | None) -> None:
        """The epilogue of the elements that start at ``where``."""
        core = self.group.items[0]
        env: dict[Any, Val] = {core.value: acc}
        self.mask_now = mask
        self.element = self.dot(where, [self.size(s) for s in contiguous(core.shape)])
        for item in self.group.items[1:]:
            self.current = item
            args = [env[v.base] if v.base.item.group is self.group else self._operand(v, where, lanes, mask, env) for v in item.operands]
            env[item.value] = item.emit(self, *args)
        for item in self.group.items:
            if item.value.buffer is not None:
                self._write(item.value, env[item.value], where, lanes, mask)

    def _operand(self, v: View, where: list[Index], lanes: int, mask: Val | None, env: dict[Any, Val]) -> Val:
        key = (v.base, v.strides, v.offset)
        if key in env:
            return env[key]
        dtype = v.base.aval.dtype
        at = self.dot(where, [self.size(s) for s in v.strides])
        if v.base.item.kind == "index":
            first = self.iadd(at, self.size(v.offset))
            start = self.const(dtype, first) if not isinstance(first, Val) else (first if dtype.bits == 64 else self.cast(first, dtype))
            env[key] = start if v.strides[-1] == 0 else self.add(self.splat(start, lanes), self.iota(dtype, lanes)) if lanes > 1 else start
            return env[key]
        pointer = self.pointer(v.base, v.offset)
        if v.strides[-1] == 0:
            env[key] = self.load(pointer, dtype, at)
        else:
            env[key] = self.load(pointer, dtype, at, lanes=lanes, mask=mask)
        return env[key]

    def _write(self, value: Value, x: Val, where: list[Index], lanes: int, mask: Val | None) -> None:
        at = self.dot(where, [self.size(s) for s in contiguous(value.aval.shape)])
        self.store(self.pointer(value), self.splat(x, lanes), at, mask=mask, dtype=value.aval.dtype)


def _batch_stride(view: View) -> Size:
    """The stride of the collapsed batch axes."""
    sizes, strides = collapse(view.shape[:-2], [view.strides[:-2]])
    return strides[0][-1] if sizes else 0


def gemm_kernels(group: Group, target: Target) -> list[Kernel]:
    """The kernels of a gemm group, in order."""
    core = group.items[0]
    if isinstance(core.node.op.lower, Windows):
        from .windows import correlation_kernels
        return correlation_kernels(group, target)
    x, y = core.operands
    ta, tb = core.node.attr("transpose_a"), core.node.attr("transpose_b")
    x, ta = _settle(x, ta)
    y, tb = _settle(y, tb)
    m, n = core.shape[-2:]
    k = x.shape[-2] if ta else x.shape[-1]
    batch = product(core.shape[:-2])
    lead = {"lda": x.strides[-2], "ldb": y.strides[-2], "ldc": n, "sa": _batch_stride(x), "sb": _batch_stride(y), "sc": m * n}
    lead = {name: v if v != 0 or name[0] == "s" else 1 for name, v in lead.items()}
    sizes: dict[str, Size] = {"m": m, "n": n, "k": k, "batch": batch, **lead}
    spec = GemmSpec(core.value.aval.dtype, ta=ta, tb=tb, **{s: v if isinstance(v, int) else None for s, v in sizes.items()})
    plain = len(group.items) == 1
    keeps_c = core.value.buffer is not None
    c = core.value if keeps_c else Value(core, -2, core.value.aval)
    workspace = Value(core, -1, core.value.aval)
    fixed = {"a": BufferAt(x.base, x.offset), "b": BufferAt(y.base, y.offset), "c": BufferAt(c), "workspace": BufferAt(workspace)}
    operands = [fixed[o] if o in fixed else SizeOf(sizes[o]) for o in spec.operands]
    made = gemm(target, spec, sink=None if plain else lambda e, *a, **kw: e.sink(*a, **kw),
                emitter=lambda: EpilogueEmitter(target, group, operands, spec))
    need = made.workspace(m, n, k, batch)
    names = [i.node.op.name for i in group.items]
    out: list[Kernel] = []
    scratch = [workspace] if need != 0 else []
    workspace.aval = core.value.aval.with_shape((need,)).with_dtype(_bytes())
    if not keeps_c:
        scratch.append(c)
    for part in made.kernels:
        emitter = part.emitter
        ops = emitter.operands if emitter is not None else operands
        ops = [Imm(0) if isinstance(o, BufferAt) and o.value is workspace and need == 0 else o for o in ops]
        reads = list({v.base for i in group.items for v in i.operands if v.base.item.group is not group})
        work = product((m, n, k, batch)) * 2
        out.append(Kernel(part.text, ops, part.tasks(m, n, k, batch), work, reads, [i.value for i in group.items if i.value.buffer],
                          f"{part.title}: {'+'.join(names)}", scratch, list(group.items), emitter.guarded if emitter is not None else False))
    if not keeps_c and not made.needs_c:
        for kernel in out:
            kernel.operands = [Imm(0) if isinstance(o, BufferAt) and o.value is c else o for o in kernel.operands]
            kernel.scratch = [v for v in kernel.scratch if v is not c]
    return out


def _bytes() -> Any:
    from ..dtypes import uint8
    return uint8


def _settle(view: View, transposed: bool) -> tuple[View, bool]:
    """An operand whose last axis is contiguous: the other layout is a transposed one."""
    if view.strides[-1] == 1 or view.shape[-1] == 1:
        return view, transposed
    perm = (*range(len(view.shape) - 2), len(view.shape) - 1, len(view.shape) - 2)
    return view.permute(perm), not transposed
