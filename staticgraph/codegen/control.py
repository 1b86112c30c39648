"""cond and while_loop as jumps of the program."""

from __future__ import annotations

from ..errors import UnimplementedError
from ..ir.opdef import Control
from ..schedule.items import Item
from ..schedule.steps import CopyStep, JumpIfZeroStep, JumpStep, LabelStep, MeasureStep
from .lower import Lowering, bytes_of, region_steps


def lower_control(low: Lowering, item: Item) -> bool:
    """Append the steps of a control-flow item; returns whether something in it can fail."""
    lower = item.node.op.lower
    kind = lower.kind if isinstance(lower, Control) else ""
    if kind == "cond":
        return _cond(low, item)
    if kind == "while":
        return _while(low, item)
    if kind == "measure":
        return _measure(low, item)
    raise UnimplementedError(None, None, f"operation {item.node.op.name!r} has no native code here")


def _measure(low: Lowering, item: Item) -> bool:
    source, target = item.operands[0].base.buffer, item.value.buffer
    if target is not None:
        low.steps.append(CopyStep(target, source, 8))
    low.steps.append(MeasureStep(item.node.attr("size"), source, item.node))
    return False


def _cond(low: Lowering, item: Item) -> bool:
    node = item.node
    pred, *operands = [v.base.buffer for v in item.operands[:len(node.inputs)]]
    outs = [v.buffer for v in item.values]
    otherwise, end = LabelStep(), LabelStep()
    low.steps.append(JumpIfZeroStep(pred, otherwise))
    fails = region_steps(low, node.attr("true"), operands, outs)
    low.steps.append(JumpStep(end))
    low.steps.append(otherwise)
    fails |= region_steps(low, node.attr("false"), operands, outs)
    low.steps.append(end)
    return fails


def _while(low: Lowering, item: Item) -> bool:
    node = item.node
    operands = [v.base.buffer for v in item.operands[:len(node.inputs)]]
    carried = [v.buffer for v in item.values]
    captured = operands[len(carried):]
    for value, target, source in zip(item.values, carried, operands):
        low.steps.append(CopyStep(target, source, bytes_of(value.aval)))
    top, end = LabelStep(), LabelStep()
    start = len(low.steps)
    low.steps.append(top)
    cond, body = node.attr("cond"), node.attr("body")
    flag = low.buffer(cond.results[0].aval, "while condition")
    outer, low.inside_loop = low.inside_loop, True
    fails = region_steps(low, cond, [*carried, *captured], [flag])
    low.steps.append(JumpIfZeroStep(flag, end))
    fails |= region_steps(low, body, [*carried, *captured], carried)
    low.inside_loop = outer
    low.steps.append(JumpStep(top))
    low.steps.append(end)
    low.loops.append((start, len(low.steps) - 1))
    return fails
