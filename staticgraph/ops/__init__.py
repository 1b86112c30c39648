"""All ops: importing this package fills the table ``OPS``, one file per family."""

import importlib
import pkgutil

for _family in sorted(m.name for m in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_family}")
