"""The public face: TF1's names, messages and manners over the IR.

All of it is loaded at once: operators of tensors are filled in by the modules that define them.
"""

from . import array_ops as array_ops
from . import indexing as indexing
from . import math_ops as math_ops
