"""Graph transforms: reverse mode, forward mode, batching. Importing the package registers them as tools of the builders."""

from . import gradient, jvp, vmap

__all__ = ["gradient", "jvp", "vmap"]
