"""How TF 1.15 counts: what it makes of one call, where that is more than one node of the call's own type.

The ledger has one operation for each of our calls. A seed that only the graph has is completed with the number of nodes made so far, so
counts decide about random numbers; ``type`` is what programs see. ``tests/tf1/recorded_calls.json`` holds what TF 1.15.5 makes of each call.
"""

from __future__ import annotations

from typing import Any

# our name of a construct: (type of the operation that has the call's name, nodes). Constants made of Python operands count by themselves.
CONSTRUCTS: dict[str, tuple[str, int]] = {
    **{k: (k, 2) for k in ("Sum", "Mean", "Max", "Min", "Prod", "Any", "All", "ArgMax", "ArgMin", "Cumsum", "Cumprod", "ConcatV2", "Transpose", "ExpandDims",
                           "ReverseV2", "GatherV2", "Pad", "TopKV2", "InTopKV2", "SparseSoftmaxCrossEntropyWithLogits")},
    "StridedSlice": ("StridedSlice", 4), "Slice": ("Slice", 3), "Split": ("Split", 3), "SplitV": ("SplitV", 3), "Roll": ("Roll", 3), "OneHot": ("OneHot", 4),
    "PadV2": ("PadV2", 3), "MatrixBandPart": ("MatrixBandPart", 3), "LinSpace": ("LinSpace", 2), "UnsortedSegmentSum": ("UnsortedSegmentSum", 2),
    "ScatterNd": ("ScatterNd", 2), "Conv2DBackpropInput": ("Conv2DBackpropInput", 2),
    "OnesLike": ("Fill", 3), "Eye": ("MatrixDiag", 2), "EyeRectangular": ("MatrixSetDiag", 3), "Trace": ("Sum", 3),
    "LogicalXor": ("LogicalAnd", 4), "LogSigmoid": ("Neg", 3), "ClipByValue": ("Maximum", 2), "ReduceLogSumExp": ("Add", 14), "CountNonzero": ("Sum", 5),
    "Norm": ("Squeeze", 5), "Norm1": ("Squeeze", 4), "L2Normalize": ("Mul", 7), "Moments": ("Squeeze", 8), "BatchNorm": ("AddV2", 7),
    "ClipByNorm": ("Identity", 16), "ClipByAverageNorm": ("Identity", 17), "Tensordot": ("Reshape", 11), "boolean_mask": ("GatherV2", 27),
    "SequenceMask": ("Less", 8), "UnsortedSegmentMean": ("RealDiv", 12), "Sort": ("Neg", 10), "SortDown": ("TopKV2", 8), "ArgSort": ("TopKV2", 9),
    "Swish": ("IdentityN", 4), "SoftmaxOfAxis": ("Transpose", 31), "ConcatOfOne": ("Identity", 2), "EmbeddingLookup": ("Identity", 3), "LogisticLoss": ("Add", 10), "WeightedLogisticLoss": ("Add", 15),
    "SoftmaxCrossEntropyWithLogits": ("Reshape", 31), "Dropout": ("Mul", 16),
    "RandomStandardNormal": ("Add", 6), "TruncatedNormal": ("Add", 6), "RandomUniform": ("Add", 7), "RandomUniformInt": ("RandomUniformInt", 2),
}


def nodes_of(construct: str) -> tuple[str, int]:
    """The type of the operation that has the call's name, and how many nodes the call makes."""
    return CONSTRUCTS.get(construct, (construct, 1))


def is_tensor(x: Any) -> bool:
    """A tensor or a variable."""
    return hasattr(x, "consumers") or hasattr(x, "_as_tensor")


def operand_nodes(*values: Any) -> int:
    """Nodes made of operands: none of a tensor, a constant of numbers, a constant of each number and a packing of a list that holds tensors."""
    return sum(_operand(v) for v in values)


def _operand(value: Any) -> int:
    if is_tensor(value):
        return 0
    if isinstance(value, (list, tuple)) and holds_tensor(value):
        return 1 + operand_nodes(*value)
    return 1


def holds_tensor(values: Any) -> bool:
    """Whether there is a tensor in a list or a list in it."""
    return any(is_tensor(v) or (isinstance(v, (list, tuple)) and holds_tensor(v)) for v in values)


def filled_nodes(shape: Any, count: int | None) -> tuple[str, int]:
    """Type and nodes of ``zeros`` and ``ones``: a small known shape (of ``count`` elements) is one constant, others are filled."""
    if is_tensor(shape):
        return "Fill", 2
    sizes = list(shape) if isinstance(shape, (list, tuple)) else [shape]
    if not holds_tensor(sizes):
        return ("Const", 1) if count is not None and count < 1000 else ("Fill", 3)
    # TF first multiplies the sizes to see whether they are few: a constant and a product for each number, a comparison with a thousand
    products, made = 0, is_tensor(sizes[0])
    for size in sizes[1:]:
        given = is_tensor(size)
        products += 0 if not made and not given else 1 if made and given else 2
        made = made or given
    return "Fill", operand_nodes(sizes) + products + 4


def index_nodes(items: list[Any]) -> int:
    """Nodes of ``x[items]`` besides the four of constant bounds: of a tensor its successor, and packed bounds."""
    singles = [i for i in items if is_tensor(i)]
    begin = [i.start if isinstance(i, slice) else i for i in items if i is not None and i is not Ellipsis]
    end = [i.stop if isinstance(i, slice) else i for i in items if i is not None and i is not Ellipsis]
    return 2 * len(singles) + sum(sum(not is_tensor(i) for i in part) for part in (begin, end) if any(is_tensor(i) for i in part))
