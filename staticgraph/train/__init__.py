"""``sg.train``: optimizers, schedules, moving averages."""

from .optimizers import (
                         AdadeltaOptimizer,
                         AdagradOptimizer,
                         AdamOptimizer,
                         FtrlOptimizer,
                         GradientDescentOptimizer,
                         MomentumOptimizer,
                         Optimizer,
                         RMSPropOptimizer,
)
from .proximal import AdagradDAOptimizer, ProximalAdagradOptimizer, ProximalGradientDescentOptimizer
from .schedules import (
                         ExponentialMovingAverage,
                         cosine_decay,
                         create_global_step,
                         exponential_decay,
                         get_global_step,
                         get_or_create_global_step,
                         inverse_time_decay,
                         natural_exp_decay,
                         piecewise_constant,
                         piecewise_constant_decay,
                         polynomial_decay,
)

__all__ = ["AdadeltaOptimizer", "AdagradDAOptimizer", "AdagradOptimizer", "AdamOptimizer", "ExponentialMovingAverage", "FtrlOptimizer", "GradientDescentOptimizer", "MomentumOptimizer",
           "Optimizer", "ProximalAdagradOptimizer", "ProximalGradientDescentOptimizer", "RMSPropOptimizer", "cosine_decay", "create_global_step", "exponential_decay", "get_global_step", "get_or_create_global_step",
           "inverse_time_decay", "natural_exp_decay", "piecewise_constant", "piecewise_constant_decay", "polynomial_decay"]
