"""Settings under TF1's names: plain objects with the fields of its protocol messages, and views of a graph's operations."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

# by the type of a field's default: what it may be set to
_TYPES = {bool: (int, bool), int: (int, np.integer), float: (int, float, np.integer, np.floating), str: (str, bytes)}


class Message:
    """Fields with defaults, set by keyword or attribute. ValueError (keyword) or AttributeError for a field that there is not."""

    fields: ClassVar[dict[str, Any]] = {}

    def __init__(self, **given: Any) -> None:
        for name, default in self.fields.items():
            object.__setattr__(self, name, default() if callable(default) else default)
        for name, value in given.items():
            if name not in self.fields:
                raise ValueError(f'Protocol message {type(self).__name__} has no "{name}" field.')
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.fields:
            raise AttributeError(f'Protocol message {type(self).__name__} has no "{name}" field.')
        wanted = _TYPES.get(type(self.fields[name]))
        if wanted is not None and not isinstance(value, wanted):
            raise TypeError(f"{value!r} has type {type(value).__name__}, but expected one of: {', '.join(k.__name__ for k in wanted if k.__module__ == 'builtins')}")
        object.__setattr__(self, name, value)

    def CopyFrom(self, other: Any) -> None:
        """Take the other message's fields."""
        for name in self.fields:
            setattr(self, name, getattr(other, name))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(getattr(self, k) == getattr(other, k) for k in self.fields)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={getattr(self, k)!r}' for k in self.fields)})"


class GPUOptions(Message):
    """Accepted; there is no GPU."""

    fields: ClassVar[dict[str, Any]] = {"allow_growth": False, "per_process_gpu_memory_fraction": 0.0, "allocator_type": "", "visible_device_list": "",
                                        "force_gpu_compatible": False, "polling_active_delay_usecs": 0, "deferred_deletion_bytes": 0}


class OptimizerOptions(Message):
    """Accepted; ``Config(optimize=)`` chooses what the compiler does."""

    L0, L1, DEFAULT, OFF, ON_1, ON_2 = -1, 0, 0, -1, 1, 2
    fields: ClassVar[dict[str, Any]] = {"opt_level": 0, "do_common_subexpression_elimination": False, "do_constant_folding": False, "do_function_inlining": False,
                                        "global_jit_level": 0}


class GraphOptions(Message):
    """Accepted."""

    fields: ClassVar[dict[str, Any]] = {"optimizer_options": OptimizerOptions, "enable_recv_scheduling": False, "build_cost_model": 0, "infer_shapes": False}


class ConfigProto(Message):
    """Settings of a session. ``intra_op_parallelism_threads`` is the number of threads of a run; without ``allow_soft_placement`` an operation
    placed on a device that there is not (a GPU) fails the run; the others are accepted."""

    fields: ClassVar[dict[str, Any]] = {"allow_soft_placement": False, "log_device_placement": False, "gpu_options": GPUOptions, "graph_options": GraphOptions,
                                        "intra_op_parallelism_threads": 0, "inter_op_parallelism_threads": 0, "use_per_session_threads": False, "device_count": dict,
                                        "operation_timeout_in_ms": 0, "device_filters": list, "placement_period": 0, "isolate_session_state": False}


class RunOptions(Message):
    """Options of one run: ``timeout_in_ms`` is a limit of time."""

    NO_TRACE, SOFTWARE_TRACE, HARDWARE_TRACE, FULL_TRACE = 0, 1, 2, 3
    fields: ClassVar[dict[str, Any]] = {"trace_level": 0, "timeout_in_ms": 0, "inter_op_thread_pool": 0, "output_partition_graphs": False,
                                        "report_tensor_allocations_upon_oom": False}


class NodeDef(Message):
    """What a graph says of one operation: inputs by name (``a``, ``b:1``, ``^c`` for a control input)."""

    fields: ClassVar[dict[str, Any]] = {"name": "", "op": "", "input": list, "device": "", "attr": dict}

    def __str__(self) -> str:
        rows = [f'name: "{self.name}"', f'op: "{self.op}"', *(f'input: "{i}"' for i in self.input), *([f'device: "{self.device}"'] if self.device else [])]
        return "\n".join(rows) + "\n"


class GraphDef(Message):
    """The operations of a graph, in order."""

    fields: ClassVar[dict[str, Any]] = {"node": list}

    def __str__(self) -> str:
        return "".join("node {\n" + "".join(f"  {row}\n" for row in str(n).splitlines()) + "}\n" for n in self.node)


def node_def(op: Any) -> NodeDef:
    """The view of an operation."""
    inputs = [t.name.removesuffix(":0") for t in op.inputs] + [f"^{c.name}" for c in op.control_inputs if hasattr(c, "type")]
    return NodeDef(name=op.name, op=op.type, input=inputs, device=op.device, attr=dict(op.attrs))
