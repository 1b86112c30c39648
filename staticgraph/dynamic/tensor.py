"""Tensors of the define-by-run mode, with PyTorch's manners."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from .. import ops as _ops  # noqa: F401  (fills the op table)
from .. import source
from ..dtypes import DType, as_dtype
from ..errors import DTypeError, ShapeError
from ..ir.builder import to_array
from ..ir.opdef import OpDef
from ..transforms import gradient as _gradient  # noqa: F401  (registers vjp_of for composed ops)
from ..transforms import jvp as _jvp  # noqa: F401
from .compute import Compute, edge_of
from .engine import check_hook, walk_back
from .inplace import View, change, follow, overwrite
from .modes import STATE, GradMode
from .plans import Signature, aval_of, dtype_of
from .tape import AccumulateGrad, AutogradError, Counter, Edge, GradFn, Handle


class Tensor:
    """An array that remembers how it was made.

    ``requires_grad`` asks for a gradient; ``backward`` adds it to ``grad`` of the leaves. Slices, reshapes and transposes share memory with
    their operand, and ``detach`` does: a change in place of one shows in the others.
    """

    # defaults live in the class: making a tensor sets what differs, and most differ in their array only
    __array_priority__ = 1000.0
    _array: np.ndarray[Any, Any]
    _counter: Counter | None = None
    _grad_fn: GradFn | None = None
    _index = 0
    _requires_grad = False
    _grad: Tensor | None = None
    _view: View | None = None
    _hooks: list[Any] | None = None
    _post_hooks: list[Any] | None = None
    _retains = False
    _accumulator: Any = None

    def __init__(self, data: Any = (), dtype: Any = None, requires_grad: bool = False) -> None:
        self._array = tensor(data, dtype)._array
        if requires_grad:
            self.requires_grad_()

    @classmethod
    def _wrap(cls, array: Any) -> Tensor:
        t = cls.__new__(cls)
        t._array = array if array.__class__ is np.ndarray else np.asarray(array)
        return t

    @classmethod
    def _view_of(cls, t: Tensor, array: np.ndarray[Any, Any], sig: Signature) -> Tensor:
        """A result that may share ``t``'s memory (a reshape of a transposed array does not)."""
        out = cls.__new__(cls)
        if array is t._array:
            array = array[...]
        out._array = array
        if np.may_share_memory(array, t._array):
            v = t._view
            base, chain = (t, (sig,)) if v is None else (v.base, (*v.chain, sig))
            out._counter = c = t.counter
            out._view = View(base, chain, c.version, STATE.enabled)
        return out

    @property
    def counter(self) -> Counter:
        """The counter of changes in place of its memory."""
        c = self._counter
        if c is None:
            c = self._counter = Counter()
        return c

    def _follow(self) -> None:
        """Bring a view's history up to changes in place of its base."""
        v = self._view
        if v is not None and v.version != self._counter.version:             # type: ignore[union-attr]
            follow(self, v)

    # ---- what it is ------------------------------------------------------------------------------------------------------------

    @property
    def data(self) -> Tensor:
        """The same memory outside of the tape: changing it is neither recorded nor noticed."""
        return Tensor._wrap(self._array)

    @data.setter
    def data(self, value: Any) -> None:
        array = value._array if isinstance(value, Tensor) else np.asarray(value, self._array.dtype)
        if array.dtype != self._array.dtype:
            raise DTypeError(f"data of dtype {array.dtype} assigned to a tensor of dtype {self._array.dtype}")
        self._array = array

    aval = property(lambda self: aval_of(self._array), doc="Shape and dtype, as rules see them.")
    shape = property(lambda self: self._array.shape, doc="The shape.")
    ndim = property(lambda self: self._array.ndim, doc="The rank.")
    dtype = property(lambda self: dtype_of(self._array), doc="The element type.")
    is_leaf = property(lambda self: self.grad_fn is None, doc="Not made by a recorded operation.")
    _version = property(lambda self: self._counter.version if self._counter is not None else 0, doc="How often the memory was changed in place.")
    _base = property(lambda self: self._view.base if self._view is not None else None, doc="The tensor whose memory it views.")
    output_nr = property(lambda self: self._index, doc="Which result of its operation it is.")
    node = property(lambda self: self, doc="Stands for itself where graph code asks a tensor for its node.")

    @property
    def grad_fn(self) -> GradFn | None:
        """The operation that made it, or None for a leaf."""
        if self._view is not None:
            self._follow()
        return self._grad_fn

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to it."""
        if self._view is not None:
            self._follow()
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Ask for a gradient. AutogradError for a non-leaf switched off, or a dtype without gradients."""
        if requires_grad and not self.dtype.is_floating:
            raise AutogradError(f"only Tensors of floating point dtype can require gradients, this one is {self.dtype.name}")
        if not requires_grad and self.grad_fn is not None:
            raise AutogradError("you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph that "
                                "doesn't require differentiation use var_no_grad = var.detach().")
        if self.grad_fn is None:
            self._requires_grad = bool(requires_grad)
        return self

    @property
    def grad(self) -> Tensor | None:
        """The gradient that ``backward`` has added up so far, None before the first. Non-leaves keep none (``retain_grad``)."""
        if self._grad is None and self._grad_fn is not None and not self._retains:
            warnings.warn("The .grad attribute of a Tensor that is not a leaf Tensor is being accessed: backward() does not fill it. "
                          f"Use .retain_grad() on it before backward() (it was made by {self._grad_fn} at {self._grad_fn.site.describe()})",
                          UserWarning, stacklevel=_user_level())
        return self._grad

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}")
            if value.shape != self.shape or value.dtype != self.dtype:
                raise AutogradError(f"assigned grad has data of a different size: {value.aval} for a tensor {self.aval}")
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    # ---- as Python and NumPy values --------------------------------------------------------------------------------------------------

    def numpy(self, *, force: bool = False) -> np.ndarray[Any, Any]:
        """The array, sharing memory. AutogradError where that would lose a gradient silently (``force=True`` detaches)."""
        if not force and self.requires_grad and STATE.enabled:
            raise AutogradError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        return self._array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"a copy is needed to give {array.dtype} as {np.dtype(dtype)}")
            return array.astype(dtype)
        return np.array(array) if copy else array

    def item(self) -> Any:
        """The one element as a Python number. AutogradError for several."""
        if self._array.size != 1:
            raise AutogradError(f"a Tensor with {self._array.size} elements cannot be converted to Scalar")
        return self._array.item()

    def tolist(self) -> Any:
        """Nested lists."""
        return self._array.tolist()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if self.dtype.kind not in "iu" or self._array.size != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self._array.item())

    def __bool__(self) -> bool:
        if self._array.size != 1:
            raise AutogradError(f"Boolean value of Tensor with {'no values' if not self._array.size else 'more than one value'} is ambiguous: "
                                f"this one has shape {list(self.shape)}; use .any() or .all()")
        return bool(self._array.item())

    def __len__(self) -> int:
        if not self._array.ndim:
            raise TypeError("len() of a 0-d tensor")
        return len(self._array)

    def __iter__(self) -> Iterator[Tensor]:
        if not self._array.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return (self[k] for k in range(len(self._array)))                    # type: ignore[index]

    def __contains__(self, value: Any) -> bool:
        return bool((self._array == (value._array if isinstance(value, Tensor) else value)).any())

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and not self._array.ndim else format(str(self), spec)

    def __repr__(self) -> str:
        with np.errstate(all="ignore"):
            whole = self.dtype.kind != "f" or bool((np.trunc(self._array) == self._array)[np.isfinite(self._array)].all())
        text = np.array2string(self._array, separator=", ", prefix="tensor(", precision=4, floatmode="maxprec_equal" if whole else "fixed")
        plain = "float32", "int64", "bool"
        extra = f", size={list(self.shape)}" if not self._array.size and self.shape != (0,) else ""
        extra += "" if self.dtype.name in plain and (self._array.size or self.dtype.name == "float32") else f", dtype={self.dtype.name}"
        fn = self.grad_fn
        extra += f", grad_fn={fn!r}" if fn is not None else ", requires_grad=True" if self._requires_grad else ""
        return f"tensor({text}{extra})"

    __hash__ = object.__hash__

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if not self.is_leaf:
            raise AutogradError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment: "
                                "detach() or clone() this one")
        out = Tensor._wrap(self._array.copy())
        out._requires_grad = self._requires_grad
        memo[id(self)] = out
        if self._grad is not None:
            out._grad = self._grad.__deepcopy__(memo)
        return out

    def __reduce__(self) -> Any:
        if not self.is_leaf:
            raise AutogradError("only leaves can be pickled: detach() this result")
        return tensor, (self._array, None, self._requires_grad)

    # ---- gradients ---------------------------------------------------------------------------------------------------------------

    def backward(self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None) -> None:
        """Add the gradient of this tensor (weighted by ``gradient``) to ``grad`` of every leaf that asks for it, or of ``inputs``.

        AutogradError: nothing requires a gradient, several elements and no ``gradient``, a graph already freed, or a kept value that was
        changed in place. Where it fails no ``grad`` has changed.
        """
        with source.hide_own_frames():
            backward(self, gradient, retain_graph, create_graph, inputs)

    def _add_grad(self, ct: Tensor, create: bool) -> None:
        """Add to ``grad``: in place, unless the sum is to be differentiated."""
        have = self._grad
        if have is None:
            self._grad = ct if create else Tensor._wrap(np.array(ct._array))
        elif create or have.requires_grad:
            with GradMode(create):
                self._grad = compute.add(have, ct)
        else:
            np.add(have._array, ct._array, out=have._array)
            have.counter.bump("the accumulation of backward()", source.UNKNOWN)

    def retain_grad(self) -> None:
        """Keep ``grad`` although this is not a leaf."""
        if not self.requires_grad:
            raise AutogradError("can't retain_grad on Tensor that has requires_grad=False")
        fn = self.grad_fn
        if fn is not None and not self._retains:
            self._retains = True
            fn.retained = {**(fn.retained or {}), self._index: self}

    retains_grad = property(lambda self: self._retains, doc="A non-leaf that keeps its gradient.")

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Handle:
        """Call ``hook(grad)`` when this tensor's gradient is known; what it returns, if not None, replaces it. ``remove()`` on the handle ends that."""
        if not self.requires_grad:
            raise AutogradError("cannot register a hook on a tensor that doesn't require gradient")
        fn = self.grad_fn
        if fn is None:
            if self._hooks is None:
                self._hooks = []
            return Handle(self._hooks, hook)
        if fn.hooks is None:
            fn.hooks = {}
        return Handle(fn.hooks.setdefault(self._index, []), hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> Handle:
        """Call ``hook(leaf)`` after ``backward`` has added to its ``grad``."""
        if self.grad_fn is not None or not self._requires_grad:
            raise AutogradError("post accumulate grad hooks cannot be registered on non-leaf tensors" if self.grad_fn is not None else
                                "cannot register a hook on a tensor that doesn't require gradient")
        if self._post_hooks is None:
            self._post_hooks = []
        return Handle(self._post_hooks, hook)

    def detach(self) -> Tensor:
        """The same memory, cut off from the tape."""
        out = Tensor._wrap(self._array)
        out._counter = self.counter
        return out

    def detach_(self) -> Tensor:
        """Cut this tensor off from the tape."""
        if self._view is not None:
            raise AutogradError("Can't detach views in-place. Use detach() instead.")
        self._grad_fn, self._index, self._requires_grad, self._retains = None, 0, False, False
        return self

    def clone(self) -> Tensor:
        """A copy that passes gradients."""
        return compute.identity(self)

    def zero_grad(self) -> None:
        """Forget ``grad``."""
        self._grad = None

    # ---- changes in place ----------------------------------------------------------------------------------------------------------

    def _in_place(self, name: str, op: OpDef, *others: Any, **attrs: Any) -> Tensor:
        with source.hide_own_frames():
            return change(compute, self, name, op, others, attrs)

    def copy_(self, other: Any) -> Tensor:
        """The values of ``other``, broadcast and cast."""
        with source.hide_own_frames():
            return overwrite(compute, self, "copy_", other)

    def fill_(self, value: Any) -> Tensor:
        """All ``value``."""
        with source.hide_own_frames():
            return overwrite(compute, self, "fill_", value)

    def zero_(self) -> Tensor:
        """All zeros."""
        with source.hide_own_frames():
            return overwrite(compute, self, "zero_", 0)


compute = Compute(Tensor)


def _user_level() -> int:
    """How far up the user's frame is, for ``warnings``."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and source.is_own_file(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    return level


def _many(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, Tensor) or not isinstance(value, Iterable) else tuple(value)


def _seeds(outputs: Any, given: Any, name: str) -> list[tuple[Edge, Tensor]]:
    ys = _many(outputs)
    alone = isinstance(outputs, Tensor) and not (isinstance(given, (list, tuple)) and any(isinstance(g, Tensor) for g in given))
    gs = (None,) * len(ys) if given is None else (given,) if alone or not isinstance(given, (list, tuple)) else tuple(given)
    if len(gs) != len(ys):
        raise AutogradError(f"got {len(ys)} tensors and {len(gs)} gradients")
    out = []
    for k, (y, g) in enumerate(zip(ys, gs)):
        if not isinstance(y, Tensor):
            raise TypeError(f"{name} needs tensors of the define-by-run mode, got {type(y).__name__}")
        edge = edge_of(y)
        if edge is None:
            raise AutogradError(f"element {k} of tensors does not require grad and does not have a grad_fn: nothing it was made from asks for a gradient "
                                "(requires_grad=True), or it was made inside no_grad() or by detach()")
        if g is None:
            if y._array.size != 1:
                raise AutogradError(f"grad can be implicitly created only for scalar outputs, this one has shape {list(y.shape)}: "
                                    "reduce it first (y.sum().backward()), or pass gradient=, a weight for each element")
            seed = Tensor._wrap(np.ones(y.shape, y._array.dtype))
        else:
            seed = g if isinstance(g, Tensor) else compute.const(g, y.dtype)
            if seed.shape != y.shape:
                raise AutogradError(f"Mismatch in shape: grad_output[{k}] has a shape of {list(seed.shape)} and output[{k}] has a shape of {list(y.shape)}.")
            if seed.dtype != y.dtype:
                raise DTypeError(f"the gradient of {y.aval} has dtype {seed.dtype.name}")
        out.append((edge, seed))
    return out


def backward(tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None) -> None:
    """Add the gradients of ``tensors`` to ``grad`` of the leaves (or of ``inputs``)."""
    with source.hide_own_frames():
        roots = _seeds(tensors, grad_tensors, "backward")
        targets = None if inputs is None else _many(inputs)
        if targets is not None and not targets:
            raise AutogradError("'inputs' argument to backward() cannot be empty.")
        edges = None if targets is None else [_edge_asked(t) for t in targets]
        found = walk_back(compute, roots, create_graph if retain_graph is None else retain_graph, create_graph, edges)
        ends = [(e, e[0].variable) for e in found if isinstance(e[0], AccumulateGrad)] if targets is None else [
            (e, t) for e, t in zip(edges or (), targets) if e in found and not t._retains]      # the walk has filled those that retain theirs
        for e, t in ends:
            ct = found[e] if create_graph else Tensor._wrap(found[e])
            t._add_grad(_hooked(t, ct, create_graph) if e[0].order == 0 else ct, create_graph)
            for (hook,) in tuple(t._post_hooks or ()):
                hook(t)


def _edge_asked(t: Any) -> Edge:
    edge = edge_of(t)
    if edge is None:
        raise AutogradError("One of the differentiated Tensors does not require grad")
    return edge


def _hooked(leaf: Tensor, ct: Tensor, create: bool) -> Tensor:
    with GradMode(create):
        for (hook,) in tuple(leaf._hooks or ()):
            changed = hook(ct)
            ct = ct if changed is None else check_hook(compute, changed, ct)
    return ct


def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
         allow_unused: bool | None = None, materialize_grads: bool = False) -> tuple[Tensor | None, ...]:
    """Gradients of ``outputs`` by ``inputs`` without touching any ``grad``.

    AutogradError for an input that is not used, unless ``allow_unused`` (then its gradient is None) or ``materialize_grads`` (then zeros).
    """
    with source.hide_own_frames():
        xs = _many(inputs)
        roots = _seeds(outputs, grad_outputs, "grad")
        edges = [_edge_asked(x) for x in xs]
        found = walk_back(compute, roots, create_graph if retain_graph is None else retain_graph, create_graph, edges)
        out: list[Tensor | None] = []
        for k, (x, e) in enumerate(zip(xs, edges)):
            if e in found:
                ct = found[e] if create_graph else Tensor._wrap(found[e])
                out.append(_hooked(x, ct, create_graph) if e[0].order == 0 else ct)
            elif materialize_grads:
                out.append(Tensor._wrap(np.zeros(x.shape, x._array.dtype)))
            elif allow_unused:
                out.append(None)
            else:
                raise AutogradError(f"One of the differentiated Tensors appears to not have been used in the graph (inputs[{k}], {x.aval}). "
                                    "Set allow_unused=True if this is the desired behavior.")
        return tuple(out)


def tensor(data: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """A leaf with a copy of ``data`` (floats are float32, ints int64 as in PyTorch; arrays keep their dtype)."""
    kind: DType | None = None if dtype is None else as_dtype(dtype)
    if hasattr(data, "_as_graph_element") or hasattr(data, "_as_tensor"):
        compute.const(data)
    if isinstance(data, (list, tuple)) and any(isinstance(d, Tensor) for d in data):
        data = [d._array.tolist() if isinstance(d, Tensor) else d for d in data]
    if isinstance(data, Tensor):
        data = data._array
    elif kind is None and not isinstance(data, (np.ndarray, np.generic)):
        guess = np.asarray(data)
        kind = as_dtype("float32" if guess.dtype.kind == "f" else "int64") if guess.dtype.kind in "fi" else None
    try:
        array = np.array(to_array(data, kind), order="C")
    except ShapeError as error:
        error.site = source.capture()
        raise
    out = Tensor._wrap(array)
    return out.requires_grad_() if requires_grad else out
