"""``sg.nn``: neural-network functions under TF1's names."""

from .surface.nn_ops import *  # noqa: F403
from .surface.nn_ops import __all__ as __all__
from .train.schedules import global_norm as global_norm
