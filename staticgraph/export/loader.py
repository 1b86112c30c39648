"""Load exported objects from Python: this one file, NumPy and nothing else of staticgraph. It may be copied next to the objects.

    m = load("model.so")
    y = m(x=array)["y"]                       # the main function; m.predict(...), m.vjp(...) are the others
    m.step(x=x, t=t); m.state["w"]; m.state.save()

Arrays must have the declared dtype and shape and be C-contiguous: nothing is converted silently.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import mmap
import os
import shutil
import struct
import tempfile
import threading

import numpy as np

ABI = 1
MAGIC = b"\0STATICGRAPH-" + b"EXPORT-1\0"
OK, ERROR, NEED_WORKSPACE, CANCELLED, HOST, BAD_ARGUMENT, UNSUPPORTED_CPU = range(7)


class ExportError(RuntimeError):
    """An exported object could not be loaded or used. ``status`` is the number that its function returned, 0 if none was called."""

    status = 0


class ComputationError(ExportError, ValueError):
    """The computation failed: ``where`` is the line of the Python program that made the operation."""

    where = ""


class _Error(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int64) for n in ("message", "element", "a", "b", "iteration", "need", "lock")]


class _Call(ctypes.Structure):
    _fields_ = [("workspace", ctypes.c_void_p), ("workspace_bytes", ctypes.c_int64), ("parallel", ctypes.c_void_p), ("pool", ctypes.c_void_p),
                ("cancel", ctypes.c_void_p), ("error", _Error)]


def load(path, name=None):
    """The module in a shared object written by ``staticgraph.export``.

    ``name`` picks one where several exports were linked into one object. FileNotFoundError, or ExportError for a file that is
    truncated, damaged, no export, of another version, or for another processor.
    """
    path = os.path.abspath(os.fspath(path))
    manifest = read_manifest(path, name)
    if manifest["abi"] != ABI:
        raise ExportError(f"{path} has version {manifest['abi']} of the calling convention, this loader knows {ABI}: use the loader of the same release")
    return Module(path, manifest)


def read_manifest(path, name=None):
    """The description embedded in an exported object, without running any of its code."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise ExportError(f"{path} is empty")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            _whole(path, data)
            found = []
            at = data.find(MAGIC)
            while at >= 0:
                start = at + len(MAGIC) + 16
                size = int.from_bytes(data[start - 16:start - 8], "little")
                raw = data[start:start + size]
                if len(raw) == size and hashlib.sha256(raw).digest()[:8] == data[start - 8:start]:
                    found.append(json.loads(raw))
                at = data.find(MAGIC, at + 1)
    if not found:
        raise ExportError(f"{path} is not an object written by staticgraph.export (or it is damaged): there is no manifest in it")
    if name is not None:
        found = [m for m in found if m["name"] == name]
    if len(found) != 1:
        raise ExportError(f"{path} holds {len(found)} exports" + (f" called {name!r}" if name else "; say which one: load(path, name)"))
    return found[0]


def _whole(path, data):
    """Refuse an ELF file that ends before its segments do: loading it would kill the process."""
    if data[:4] != b"\x7fELF" or len(data) < 64 or data[4] != 2:
        return
    offset, sections = struct.unpack_from("<QQ", data, 32)
    size, count, section, many = struct.unpack_from("<HHHH", data, 54)
    if max(offset + size * count, sections + section * many) > len(data):
        raise ExportError(f"{path} is truncated")
    for k in range(count):
        start, filled = (struct.unpack_from("<Q", data, offset + k * size + at)[0] for at in (8, 32))
        if start + filled > len(data):
            raise ExportError(f"{path} is truncated: {len(data)} bytes of at least {start + filled}")


class Module:
    """A loaded export: call it, or one of its functions by name. Safe to call from several threads."""

    def __init__(self, path, manifest):
        self.path, self.manifest, self.name = path, manifest, manifest["name"]
        self._library = self._open(path)
        if self._loaded_id() != manifest["id"]:
            # the system knows libraries by their path: after a new export to the same place it would give the old one
            self.close()
            self._library = self._open_copy(path)
        if self._loaded_id() != manifest["id"]:
            raise ExportError(f"{path}: its manifest and its code are not of one export")
        self._message = self._symbol("error_message", ctypes.c_char_p, ctypes.c_int32)
        version = self._symbol("abi_version", ctypes.c_int32)()
        if version != ABI:
            raise ExportError(f"{path}: its manifest and its code disagree on the version ({version})")
        self.functions = {e["name"]: Function(self, e) for e in manifest["entries"]}
        self.main = self.functions[manifest["entries"][0]["name"]]
        self.state = State(self) if manifest["state"] else None

    def _open(self, path):
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            raise ExportError(f"{self.path} (code for {', '.join(self.manifest['targets'])}, {self.manifest['triple']}) cannot be loaded here: "
                              f"{error}") from None

    def _open_copy(self, path):
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, os.path.basename(path))
            shutil.copyfile(path, copy)
            return self._open(copy)

    def _loaded_id(self):
        """The identity of the code that was loaded, None where it has no manifest of that name."""
        manifest = getattr(self._library, f"{self.name}_manifest", None)
        if manifest is None:
            return None
        manifest.restype = ctypes.c_char_p
        return json.loads(manifest()).get("id")

    def _symbol(self, name, result, *arguments):
        try:
            f = self._library[f"{self.name}_{name}"]
        except AttributeError:
            raise ExportError(f"{self.path} has no function {self.name}_{name}: it is damaged") from None
        f.restype, f.argtypes = result, list(arguments)
        return f

    def __call__(self, **arrays):
        return self.main(**arrays)

    def __getattr__(self, name):
        found = self.__dict__.get("functions", {}).get(name)
        if found is None:
            raise AttributeError(f"{self.__dict__.get('name', 'the module')} has no function {name!r}")
        return found

    def __repr__(self):
        return f"<export {self.name} from {self.path}: {', '.join(map(repr, self.functions.values()))}>"

    def new_state(self):
        """Another state with the values of the export; pass it as ``state=``."""
        if self.manifest["state"] is None:
            raise ExportError(f"{self.name} was exported with frozen state: it has none to own")
        return State(self)

    def close(self):
        """Unload the object. Nothing of it may be used afterwards."""
        library, self._library = self._library, None
        self.__dict__.get("functions", {}).clear()
        if library is not None and hasattr(ctypes, "_dlopen") and os.name == "posix":
            import _ctypes
            _ctypes.dlclose(library._handle)

    def error(self, status, record=None):
        """The exception of a status."""
        text = self._message(status).decode()
        kind, site = status & 255, self.manifest["sites"].get(str(status >> 8))
        if kind == ERROR and site is not None and record is not None:
            made = ComputationError(f"{_filled(site, record)} (at {site['where']})")
            made.where = site["where"]
        elif kind == UNSUPPORTED_CPU:
            made = ExportError(f"{text}: {self.path} holds code for {', '.join(self.manifest['targets'])}")
        else:
            made = ExportError(text)
        made.status = status
        return made


def _filled(site, record):
    """The text of a failed check with the numbers of this failure."""
    if site["values"] == "s":
        return site["message"].format(a=record.a, limit=record.b)
    value = record.a
    if site["values"] == "f":
        value = float(np.int64(record.a).view(np.float64))
    elif site["values"] == "b":
        value = bool(record.a)
    shape = site["shape"]
    index = str(record.element) if shape != [] else ""
    if shape and 0 <= record.element < int(np.prod(shape)):
        index = ",".join(map(str, np.unravel_index(record.element, shape)))
    return site["message"].format(i=index, a=value, limit=record.b)


def _evaluate(size, values):
    """A size of the manifest; ``values`` are those of the named sizes."""
    if isinstance(size, int):
        return size
    if isinstance(size, str):
        return values[size]
    if size[0] == "sum":
        return size[1] + sum(c * _evaluate(t, values) for c, t in size[2])
    x, y = (_evaluate(s, values) for s in size[1:])
    return max(x, y) if size[0] == "max" else x * y if size[0] == "mul" else x // y if y else 0


class Function:
    """One function of an export: takes arrays by name, gives a dict of arrays."""

    def __init__(self, module, entry):
        self._module, self._entry, self.name = module, entry, entry["name"]
        self.inputs = {i["name"]: i for i in entry["inputs"]}
        self.outputs = {o["name"]: o for o in entry["outputs"]}
        self.sizes = entry["sizes"]
        count = bool(self.inputs) + bool(self.outputs) + bool(self.sizes) + bool(module.manifest["state"]) + 1
        self._run = module._symbol(self.name, ctypes.c_int32, *[ctypes.c_void_p] * count)
        self._workspace = module._symbol(f"{self.name}_workspace_bytes", ctypes.c_int64, *[ctypes.c_void_p] * bool(self.sizes))
        self._local = threading.local()      # a workspace per thread

    def __repr__(self):
        return f"{self.name}({', '.join(self.inputs)}) -> {', '.join(self.outputs)}"

    def __call__(self, *, state=None, **arrays):
        module = self._module
        if module._library is None:
            raise ExportError(f"{module.name} has been closed")
        if arrays.keys() != self.inputs.keys():
            missing, unknown = sorted(self.inputs.keys() - arrays.keys()), sorted(arrays.keys() - self.inputs.keys())
            raise TypeError(f"{module.name}.{self.name}: " + "; ".join(filter(None, [
                missing and f"missing {', '.join(missing)}", unknown and f"there is no input {', '.join(unknown)}"])))
        # NumPy gives scalars where others give arrays without axes
        arrays = {k: np.asarray(a) if isinstance(a, np.generic) else a for k, a in arrays.items()}
        values = self._checked(arrays)
        # an output whose size the run finds has room for the most there can be
        outs = [np.empty(_evaluate(o["room"], values) if "room" in o else tuple(_evaluate(d, values) for d in o["shape"]), o["dtype"])
                for o in self.outputs.values()]
        arguments = []
        own = None
        if module.manifest["state"]:
            own = module.state if state is None else state
            arguments.append(own._address)
        elif state is not None:
            raise TypeError(f"{module.name}.{self.name} has no state")
        ins = (ctypes.c_void_p * max(1, len(arrays)))(*[arrays[k].ctypes.data for k in self.inputs])
        to = (ctypes.c_void_p * max(1, len(outs)))(*[o.ctypes.data for o in outs])
        sizes = (ctypes.c_int64 * max(1, len(self.sizes)))(*[values[s] for s in self.sizes])
        arguments += [ctypes.addressof(a) for a, has in ((ins, self.inputs), (to, self.outputs), (sizes, self.sizes)) if has]
        need = self._workspace(ctypes.addressof(sizes)) if self.sizes else self._workspace()
        workspace = self._memory(need)
        call = _Call(workspace=workspace, workspace_bytes=need)
        with own._lock if own is not None and self._entry["writes"] else contextlib.nullcontext():
            status = self._run(*arguments, ctypes.addressof(call))
        if status:
            raise module.error(status, call.error)
        values.update({o["c"]: int(a) for o, a in zip(self.outputs.values(), outs) if "found" in o})
        return {name: _trimmed(a, [_evaluate(d, values) for d in o["shape"]]) if "room" in o else a
                for (name, o), a in zip(self.outputs.items(), outs) if "found" not in o}

    def _memory(self, need):
        held = getattr(self._local, "array", None)
        if held is None or held.size < need + 64:
            held = self._local.array = np.empty(need + 64, np.uint8)
        return held.ctypes.data + -held.ctypes.data % 64

    def _checked(self, arrays):
        """The values of the open sizes; TypeError and ValueError for an array that does not fit."""
        values = {}
        where = f"{self._module.name}.{self.name}"
        for name, i in self.inputs.items():
            a = arrays[name]
            if not isinstance(a, np.ndarray):
                raise TypeError(f"{where}: {name} must be a NumPy array of {i['dtype']}, got {type(a).__name__}")
            if a.dtype != np.dtype(i["dtype"]):
                raise TypeError(f"{where}: {name} must have dtype {i['dtype']}, got {a.dtype}; convert it with {name}.astype({i['dtype']!r})")
            if a.ndim != len(i["shape"]):
                raise ValueError(f"{where}: {name} must have shape {_spelled(i['shape'])}, got {list(a.shape)}")
            for d, s in zip(i["shape"], a.shape):
                if isinstance(d, list) and d[1] == 0 and len(d[2]) == 1 and d[2][0][0] == 1 and isinstance(d[2][0][1], str):
                    values.setdefault(d[2][0][1], s)
        for s in self.sizes:
            if s not in values:
                raise ExportError(f"{where}: no input tells the size {s}; call the function from C")
        for name, i in self.inputs.items():
            a = arrays[name]
            want = tuple(_evaluate(d, values) for d in i["shape"])
            if a.shape != want:
                raise ValueError(f"{where}: {name} must have shape {_spelled(i['shape'])}, got {list(a.shape)}"
                                 + (f" where {', '.join(f'{k} = {v}' for k, v in values.items())}" if values else ""))
            if not a.flags.c_contiguous or not a.flags.aligned:
                raise ValueError(f"{where}: {name} has strides {a.strides}; it must be contiguous in C order and aligned: np.ascontiguousarray({name})")
        return values


def _trimmed(a, shape):
    """The first elements of a flat array under a shape, without the memory of the others."""
    size = int(np.prod(shape))
    return a.reshape(shape) if size == a.size else a[:size].copy().reshape(shape)


def _spelled(shape):
    def one(d):
        if not isinstance(d, list):
            return str(d)
        if d[0] != "sum":
            return f"{d[0]}({one(d[1])},{one(d[2])})"
        return "+".join([*(one(t) if c == 1 else f"{c}*{one(t)}" for c, t in d[2]), *([str(d[1])] if d[1] else [])])
    return "[" + ", ".join(map(one, shape)) + "]"


class State:
    """The variables and random streams of an export, owned here. ``state[name]`` is a copy; assigning sets the variable."""

    def __init__(self, module):
        self._module = module
        described = module.manifest["state"]
        self._held = np.zeros(described["bytes"] + 64, np.uint8)
        self._address = self._held.ctypes.data + -self._held.ctypes.data % 64
        self.variables = {v["name"]: v for v in described["variables"]}
        self._lock = threading.Lock()
        p, n = ctypes.c_void_p, ctypes.c_int64
        self._init = module._symbol("state_init", ctypes.c_int32, p)
        self._get = module._symbol("state_get", ctypes.c_int32, p, ctypes.c_char_p, p, n)
        self._set = module._symbol("state_set", ctypes.c_int32, p, ctypes.c_char_p, p, n)
        self._save = module._symbol("state_save", ctypes.c_int32, p, p, n)
        self._load = module._symbol("state_load", ctypes.c_int32, p, p, n)
        self.reset()

    def _done(self, status):
        if status:
            raise self._module.error(status)

    def reset(self):
        """The values at the time of the export."""
        with self._lock:
            self._done(self._init(self._address))

    def _described(self, name):
        if name not in self.variables:
            raise KeyError(f"the state has no variable {name!r}; there are {', '.join(self.variables)}")
        return self.variables[name]

    def __iter__(self):
        return iter(self.variables)

    def __getitem__(self, name):
        v = self._described(name)
        out = np.empty(v["shape"], v["dtype"])
        with self._lock:
            self._done(self._get(self._address, name.encode(), out.ctypes.data, out.nbytes))
        return out

    def __setitem__(self, name, value):
        v = self._described(name)
        a = np.asarray(value)
        if a.dtype != np.dtype(v["dtype"]) or list(a.shape) != v["shape"]:
            raise ValueError(f"{name} is {v['dtype']}{v['shape']}, got {a.dtype}{list(a.shape)}")
        a = np.ascontiguousarray(a)
        with self._lock:
            self._done(self._set(self._address, name.encode(), a.ctypes.data, a.nbytes))

    def save(self):
        """The whole state as bytes, with version and checksum."""
        out = np.empty(self._module.manifest["state"]["bytes"], np.uint8)
        with self._lock:
            self._done(self._save(self._address, out.ctypes.data, out.nbytes))
        return out.tobytes()

    def load(self, data):
        """Set the state from ``save``'s bytes; ExportError, and nothing changed, where they are damaged or another export's."""
        a = np.frombuffer(data, np.uint8)
        with self._lock:
            self._done(self._load(self._address, a.ctypes.data, a.nbytes))
