"""Tensors of the define-by-run mode, with PyTorch's manners."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .. import ops as _ops  # noqa: F401  (fills the op table)
from .. import source
from ..dtypes import DType, as_dtype
from ..errors import ShapeError
from ..ir.aval import Aval
from ..ir.builder import to_array
from ..ir.opdef import OPS, OpDef
from ..transforms import gradient as _gradient  # noqa: F401  (registers vjp_of for composed ops)
from ..transforms import jvp as _jvp  # noqa: F401
from .tape import AccumulateGrad, AutogradError, Compute, GradFn, Storage, backward, grad_mode, is_grad_enabled, record


class Tensor:
    """An array that remembers how it was made.

    ``requires_grad`` asks for a gradient; ``backward`` adds it to ``grad`` of the leaves. Results never share memory with operands
    (unlike PyTorch's views); only ``detach`` does.
    """

    __slots__ = ("__weakref__", "_grad_fn", "_hooks", "_index", "_requires_grad", "_retains", "_storage", "grad")
    __array_priority__ = 1000.0

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._grad_fn: GradFn | None = None
        self._index = 0
        self._requires_grad = False
        self.grad: Tensor | None = None
        self._hooks: list[Callable[..., Any]] = []
        self._retains = False

    @classmethod
    def _wrap(cls, array: np.ndarray[Any, Any]) -> Tensor:
        return cls(Storage(array))

    @classmethod
    def _of(cls, storage: Storage) -> Tensor:
        return cls(storage)

    def _edge(self) -> Any:
        if self._grad_fn is not None:
            return self._grad_fn
        return AccumulateGrad(self) if self._requires_grad else None

    # ---- what it is ------------------------------------------------------------------------------------------------------------

    @property
    def data(self) -> np.ndarray[Any, Any]:
        """The array itself; changing it is not recorded."""
        return self._storage.array

    @property
    def aval(self) -> Aval:
        """Shape and dtype, as rules see them."""
        return Aval(self._storage.array.shape, as_dtype(self._storage.array.dtype))

    shape = property(lambda self: self._storage.array.shape, doc="The shape.")
    ndim = property(lambda self: self._storage.array.ndim, doc="The rank.")
    dtype = property(lambda self: as_dtype(self._storage.array.dtype), doc="The element type.")
    grad_fn = property(lambda self: self._grad_fn, doc="The operation that made it, or None for a leaf.")
    is_leaf = property(lambda self: self._grad_fn is None, doc="Not made by a recorded operation.")
    _version = property(lambda self: self._storage.version, doc="How often the memory was changed in place.")

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to it."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, value: bool = True) -> Tensor:
        """Ask for a gradient. AutogradError for a non-leaf switched off, or a dtype without gradients."""
        if value and not self.dtype.is_floating:
            raise AutogradError(f"only Tensors of floating point dtype can require gradients, this one is {self.dtype.name}")
        if not value and self._grad_fn is not None:
            raise AutogradError("you can only change requires_grad flags of leaf variables; use detach() to cut a result off")
        self._requires_grad = value
        return self

    def numpy(self) -> np.ndarray[Any, Any]:
        """The array. AutogradError where that would lose a gradient silently."""
        if self._requires_grad and is_grad_enabled():
            raise AutogradError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        return self._storage.array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return np.array(self.numpy(), dtype=dtype)

    def item(self) -> Any:
        """The one element as a Python number."""
        return self._storage.array.item()

    def tolist(self) -> Any:
        """Nested lists."""
        return self._storage.array.tolist()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        return int(np.asarray(self._storage.array).__index__())

    def __bool__(self) -> bool:
        if self._storage.array.size != 1:
            raise AutogradError(f"Boolean value of Tensor with {self._storage.array.size} values is ambiguous: use any() or all()")
        return bool(self._storage.array)

    def __len__(self) -> int:
        return len(self._storage.array)

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        text = np.array2string(self._storage.array, separator=", ", prefix="tensor(")
        extra = "" if self.dtype.name in ("float32", "int64", "bool") else f", dtype={self.dtype.name}"
        extra += f", grad_fn={self._grad_fn!r}" if self._grad_fn else ", requires_grad=True" if self._requires_grad else ""
        return f"tensor({text}{extra})"

    __hash__ = object.__hash__

    # ---- gradients ---------------------------------------------------------------------------------------------------------------

    def backward(self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False) -> None:
        """Add the gradient of this tensor (weighted by ``gradient``) to ``grad`` of every leaf that asks for it.

        AutogradError: nothing requires a gradient, several elements and no ``gradient``, a graph already freed, or a
        kept value that was changed in place.
        """
        with source.hide_own_frames():
            if not self._requires_grad:
                raise AutogradError("element 0 of tensors does not require grad and does not have a grad_fn")
            ct = _seed(self, gradient)
            keep = create_graph if retain_graph is None else retain_graph
            if self._grad_fn is None:
                _accumulate(self, ct, create_graph)
                return
            leaves = _leaves(self)
            found = backward(compute, [self], [ct], keep, create_graph)
            for key, value in found.items():
                _accumulate(leaves[key], value, create_graph)

    def retain_grad(self) -> None:
        """Keep ``grad`` although this is not a leaf."""
        if self._grad_fn is None or self._retains:
            return
        self._retains = True
        index = self._index

        def keep(totals: list[Any]) -> list[Any]:
            if totals[index] is not None:
                _accumulate(self, totals[index], is_grad_enabled())
            return totals
        self._grad_fn.hooks.append(keep)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Any:
        """Call ``hook(grad)`` when this tensor's gradient is known; a result replaces it. ``remove()`` on what is returned."""
        if not self._requires_grad:
            raise AutogradError("cannot register a hook on a tensor that doesn't require gradient")
        if self._grad_fn is None:
            self._hooks.append(hook)
            return _Handle(self._hooks, hook)
        index = self._index

        def call(totals: list[Any]) -> list[Any]:
            if totals[index] is not None:
                changed = hook(totals[index])
                if changed is not None:
                    totals = [changed if k == index else t for k, t in enumerate(totals)]
            return totals
        self._grad_fn.hooks.append(call)
        return _Handle(self._grad_fn.hooks, call)

    def detach(self) -> Tensor:
        """The same memory, cut off from the graph."""
        return Tensor(self._storage)

    def clone(self) -> Tensor:
        """A copy that passes gradients."""
        return compute.identity(self)

    def zero_grad(self) -> None:
        """Forget ``grad``."""
        self.grad = None

    # ---- changes in place ----------------------------------------------------------------------------------------------------------

    def _in_place(self, name: str, op: OpDef, *others: Any, **attrs: Any) -> Tensor:
        with source.hide_own_frames():
            site = source.capture()
            if self._requires_grad and self._grad_fn is None and is_grad_enabled():
                raise AutogradError("a leaf Variable that requires grad is being used in an in-place operation.")
            old = Tensor(self._storage)
            old._grad_fn, old._index, old._requires_grad = self._grad_fn, self._index, self._requires_grad
            operands = compute.operands(op, (old, *others))
            with grad_mode(False):
                out = compute.apply(op, operands, attrs)
            if out.shape != self.shape or out.dtype != self.dtype:
                raise ShapeError(f"{name}: the result {out.aval} does not fit the tensor {self.aval} it would replace")
            versions = tuple(t._storage.version for t in operands)
            self._storage.array = out._storage.array
            self._storage.version += 1
            self._storage.changed = (name, site)
            if is_grad_enabled() and any(t.requires_grad for t in operands):
                fn = record(op, {**op.defaults, **attrs}, operands, (self,), site)
                fn.versions = versions
            return self

    def add_(self, other: Any) -> Tensor:
        """self += other"""
        return self._in_place("add_", OPS["add"], other)

    def sub_(self, other: Any) -> Tensor:
        """self -= other"""
        return self._in_place("sub_", OPS["sub"], other)

    def mul_(self, other: Any) -> Tensor:
        """self *= other"""
        return self._in_place("mul_", OPS["mul"], other)

    def div_(self, other: Any) -> Tensor:
        """self /= other"""
        return self._in_place("div_", OPS["div"], other)

    def exp_(self) -> Tensor:
        """self = exp(self)"""
        return self._in_place("exp_", OPS["exp"])

    def relu_(self) -> Tensor:
        """self = relu(self)"""
        return self._in_place("relu_", OPS["relu"])

    def neg_(self) -> Tensor:
        """self = -self"""
        return self._in_place("neg_", OPS["neg"])

    def zero_(self) -> Tensor:
        """All zeros."""
        return self._fill("zero_", 0)

    def fill_(self, value: Any) -> Tensor:
        """All ``value``."""
        return self._fill("fill_", value)

    def copy_(self, other: Any) -> Tensor:
        """The values of ``other``."""
        return self._fill("copy_", other)

    def _fill(self, name: str, value: Any) -> Tensor:
        if self._requires_grad and self._grad_fn is None and is_grad_enabled():
            raise AutogradError("a leaf Variable that requires grad is being used in an in-place operation.")
        source_ = value if isinstance(value, Tensor) else compute.const(value, self.dtype)
        out = compute.broadcast(source_, self.shape)
        self._storage.array = np.array(out._storage.array)
        self._storage.version += 1
        self._storage.changed = (name, source.capture())
        if is_grad_enabled():                # else the tensor stays the leaf, or the result, that it is
            self._grad_fn, self._index, self._requires_grad = out._grad_fn, out._index, out._requires_grad
        return self

    def __iadd__(self, other: Any) -> Tensor:
        return self.add_(other)

    def __isub__(self, other: Any) -> Tensor:
        return self.sub_(other)

    def __imul__(self, other: Any) -> Tensor:
        return self.mul_(other)

    def __itruediv__(self, other: Any) -> Tensor:
        return self.div_(other)


class _Handle:
    """Removes a hook."""

    def __init__(self, hooks: list[Any], hook: Any) -> None:
        self._hooks, self._hook = hooks, hook

    def remove(self) -> None:
        """Do not call the hook any more."""
        if self._hook in self._hooks:
            self._hooks.remove(self._hook)


compute = Compute(Tensor)


def _seed(t: Tensor, gradient: Any) -> Tensor:
    if gradient is None:
        if t._storage.array.size != 1:
            raise AutogradError(f"grad can be implicitly created only for scalar outputs, this one has shape {list(t.shape)}: "
                                "pass gradient=")
        return compute.full(t.aval, 1)
    seed = gradient if isinstance(gradient, Tensor) else compute.const(gradient, t.dtype)
    if seed.shape != t.shape:
        raise AutogradError(f"Mismatch in shape: the gradient has shape {list(seed.shape)} and the output {list(t.shape)}")
    return seed


def _leaves(root: Tensor) -> dict[int, Tensor]:
    leaves: dict[int, Tensor] = {}
    stack, seen = [root._grad_fn], set()
    while stack:
        fn = stack.pop()
        if fn is None or fn in seen:
            continue
        seen.add(fn)
        for t in fn.inputs:
            if t._grad_fn is not None:
                stack.append(t._grad_fn)
            elif t._requires_grad:
                leaves[id(t)] = t
    return leaves


def _accumulate(leaf: Tensor, ct: Tensor, create: bool) -> None:
    for hook in leaf._hooks:
        changed = hook(ct)
        ct = ct if changed is None else changed
    value = ct if create else ct.detach()
    if leaf.grad is None:
        leaf.grad = value if create else Tensor._wrap(np.array(value._storage.array))
    elif create:
        leaf.grad = compute.add(leaf.grad, value)
    else:
        with grad_mode(False):
            leaf.grad = compute.add(leaf.grad, value)


def tensor(data: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """A leaf with a copy of ``data`` (floats are float32, ints int64 as in PyTorch; arrays keep their dtype)."""
    if isinstance(data, Tensor):
        data = data._storage.array
    if dtype is None and not isinstance(data, (np.ndarray, np.generic)):
        guess = np.asarray(data)
        dtype = "float32" if guess.dtype.kind == "f" else "int64" if guess.dtype.kind == "i" else None
    kind: DType | None = None if dtype is None else as_dtype(dtype)
    out = Tensor._wrap(np.array(to_array(data, kind), order="C"))
    return out.requires_grad_() if requires_grad else out


def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
         allow_unused: bool = False) -> tuple[Tensor | None, ...]:
    """Gradients of ``outputs`` by ``inputs`` without touching ``grad``. AutogradError for an input that is not used, unless allowed."""
    with source.hide_own_frames():
        ys: Sequence[Tensor] = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
        xs: Sequence[Tensor] = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
        given = (grad_outputs,) * len(ys) if not isinstance(grad_outputs, (list, tuple)) else tuple(grad_outputs)
        for y in ys:
            if not y.requires_grad:
                raise AutogradError("element 0 of tensors does not require grad and does not have a grad_fn")
        cts = [_seed(y, g) for y, g in zip(ys, given)]
        found = backward(compute, ys, cts, create_graph if retain_graph is None else retain_graph, create_graph, xs)
        out = tuple(found.get(id(x)) for x in xs)
        if not allow_unused and any(o is None for o in out):
            raise AutogradError("One of the differentiated Tensors appears to not have been used in the graph. "
                                "Set allow_unused=True if this is the desired behavior.")
        return out
