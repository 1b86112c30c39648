"""staticgraph: a define-then-run graph compiler.

Public names are resolved when they are first used, so that ``import staticgraph`` stays quick and no compiler part is loaded before it is needed.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from typing import Any

__version__ = "0.1.0"

_MODULES = {
    "dtypes": "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 complex64 complex128 string as_dtype DType",
    "config": "Config", "errors": "Error GraphError OpError",
    "ir.text": "parse",
    "surface.ledger": "Graph get_default_graph reset_default_graph get_default_session",
    "surface.tensor": "Tensor Operation",
    "surface.shapes": "TensorShape Dimension",
    "surface.session": "Session InteractiveSession",
    "surface.sharing": "AUTO_REUSE VariableScope get_variable get_local_variable variable_scope get_variable_scope make_template",
    "surface.keys": "GraphKeys",
    "surface.assigning": "assign assign_add assign_sub scatter_add scatter_sub scatter_update",
    "surface.variables": "Variable model_variables moving_average_variables tables_initializer initialize_local_variables global_variables all_variables trainable_variables local_variables variables_initializer "
                         "global_variables_initializer local_variables_initializer initialize_all_variables initialize_variables is_variable_initialized "
                         "report_uninitialized_variables "
                         "group no_op",
    "surface.initializers": "zeros_initializer ones_initializer constant_initializer random_uniform_initializer random_normal_initializer "
                            "truncated_normal_initializer variance_scaling_initializer glorot_uniform_initializer glorot_normal_initializer",
    "surface.math_ops": "cast to_float to_double to_int32 to_int64 divide truediv div realdiv argmax argmin arg_max arg_min count_nonzero matmul batch_matmul tensordot "
                        "add_n accumulate_n clip_by_value where cumsum cumprod norm",
    "surface.array_ops": "constant placeholder placeholder_with_default identity stop_gradient shape size rank reshape transpose matrix_transpose expand_dims squeeze "
                         "concat stack unstack split tile broadcast_to reverse zeros ones zeros_like ones_like fill linspace one_hot gather sort",
    "surface.padding": "pad",
    "surface.static_checks": "assert_rank assert_rank_at_least assert_rank_in assert_type",
    "surface.selection": "boolean_mask unique unique_with_counts dynamic_partition",
    "surface.random_ops": "random_normal truncated_normal random_uniform random_shuffle set_random_seed",
    "surface.gradients": "gradients hessians custom_gradient IndexedSlices IndexedSlicesValue",
    "surface.overrides": "RegisterGradient NotDifferentiable NoGradient",
    "surface.control": "cond while_loop case scan map_fn foldl foldr",
    "surface.tensor_array": "TensorArray",
    "surface.scopes": "name_scope control_dependencies device colocate_with get_collection get_collection_ref add_to_collection add_to_collections convert_to_tensor",
    "surface.scatter_ops": "gather_nd scatter_nd tensor_scatter_update tensor_scatter_add tensor_scatter_sub scatter_nd_update scatter_nd_add scatter_nd_sub "
                           "unsorted_segment_sum unsorted_segment_mean sequence_mask reverse_sequence argsort roll meshgrid invert_permutation confusion_matrix",
    "surface.matrix_ops": "eye matrix_diag matrix_diag_part trace diag diag_part matrix_band_part matrix_set_diag cross",
    "surface.protos": "ConfigProto GPUOptions GraphOptions OptimizerOptions RunOptions GraphDef NodeDef",
    "surface.sparse": "SparseTensor SparseTensorValue sparse_placeholder sparse_to_dense sparse_tensor_to_dense sparse_tensor_dense_matmul",
    "surface.checks": "Assert Print assert_variables_initialized check check_numerics verify_tensor_all_finite add_check_numerics_ops assert_equal assert_none_equal assert_less assert_less_equal "
                      "assert_greater assert_greater_equal assert_positive assert_negative assert_non_negative assert_non_positive assert_near",
    "surface.host_ops": "py_func",
    "train.schedules": "clip_by_global_norm clip_by_norm clip_by_average_norm global_norm",
    "functional": "function grad value_and_grad vjp jvp vmap jacfwd jacrev hessian hvp checkpoint",
    "tools.gradcheck": "check_gradients", "tools.draw": "draw", "tools.compare": "compare",
}
# what NumPy, JAX and PyTorch call it
_ELSEWHERE = {"sum": "reduce_sum", "mean": "reduce_mean", "prod": "reduce_prod", "max": "reduce_max", "min": "reduce_min", "any": "reduce_any",
              "all": "reduce_all", "logsumexp": "reduce_logsumexp", "dot": "matmul", "tensor": "constant", "array": "constant", "arange": "range",
              "power": "pow", "concatenate": "concat", "jit": "function", "softmax": "nn.softmax", "no_grad": "dynamic.no_grad", "amax": "reduce_max",
              "optim": "train", "backward": "gradients", "select": "where", "clip": "clip_by_value", "astype": "cast"}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}
_RENAMED = {"bool": ("dtypes", "bool_"), "slice": ("surface.indexing", "slice_"), "range": ("surface.array_ops", "range_"),
            "tuple": ("surface.variables", "tuple_"), "print": ("surface.checks", "print_"), "strided_slice": ("surface.indexing", "strided_slice"), "newaxis": ("surface.scopes", "newaxis")}


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and importlib.util.find_spec(f"{__name__}.{name}") is not None:
        return importlib.import_module(f"{__name__}.{name}")
    place = _RENAMED.get(name) or ((_HOME[name], name) if name in _HOME else None)
    if place is not None:
        value = getattr(importlib.import_module(f"{__name__}.{place[0]}"), place[1])
    elif not name.startswith("_"):
        try:
            value = importlib.import_module(f"{__name__}.surface.math_ops").function_named(name)
        except KeyError:
            known = _ELSEWHERE.get(name)         # else Python itself looks for a similar name
            text = f"module {__name__!r} has no attribute {name!r}" + (f"; here it is sg.{known}" if known else "")
            raise AttributeError(text, name=name, obj=None if known else sys.modules[__name__]) from None
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from .surface.math_ops import FUNCTIONS
    used_here = {"Any", "annotations", "importlib", "pkgutil", "sys"}
    return sorted({*globals(), *_HOME, *_RENAMED, *(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")), *FUNCTIONS} - used_here)
