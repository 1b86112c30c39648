"""``staticgraph compare FILE:FUNCTION``: what ``sg.compare`` finds, from the command line.

Arguments come from the file: from its function ``example``, else from ``init(rng)`` and ``batch(rng)`` (the models in ``samples/models``).
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HELP = "one function define-by-run and as a graph: equality, time, memory"
PEERS = ("numpy", "torch", "jax", "tensorflow")
_EPILOG = """The function takes arrays and is written with staticgraph's functions. The file says with which arguments it is called:
  def example(rng): return x, y            the arguments, made with a numpy.random.Generator
or, as the models in samples/models do,
  def init(rng): ...  def batch(rng): ...  called as FUNCTION(init(rng), *batch(rng))
Functions FUNCTION_numpy, FUNCTION_torch, FUNCTION_jax and FUNCTION_tensorflow in the file are taken as its counterparts.

exit code: 0 all modes agree; 1 they differ, or a mode failed; 2 the command cannot be carried out."""


def add(sub: Any) -> None:
    """Add the subcommand to a parser."""
    p = sub.add_parser("compare", help=HELP, description=HELP, epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", metavar="FILE:FUNCTION", help="a Python file and a function in it, such as samples/models/mlp.py:loss")
    p.add_argument("--html", metavar="FILE", help="write one self-contained page")
    p.add_argument("--plot", metavar="FILE", help="write the pictures (.png, .svg or .pdf; needs matplotlib)")
    p.add_argument("--only", metavar="PICTURE", help="with --plot: one of time, paid, dispatches, passes, timeline, bytes")
    p.add_argument("--json", metavar="FILE", help="write all numbers")
    p.add_argument("--seconds", type=float, default=3.0, help="time to spend on measuring (default 3)")
    p.add_argument("--threads", type=int, default=1, help="threads of each mode (default 1)")
    p.add_argument("--seed", type=int, default=0, help="seed of the arguments (default 0)")
    p.add_argument("--without", metavar="LIBRARY", action="append", default=[], choices=PEERS, help="leave a library out (numpy, torch, jax, tensorflow); may be repeated")


def run(args: argparse.Namespace) -> int:
    """Carry it out; the exit code."""
    from .compare import compare
    try:
        module, fn, name = load(args.what)
        arguments = example(module, np.random.default_rng(args.seed), args.what)
        peers: dict[str, Any] = {p: getattr(module, f"{name}_{p}", None) for p in PEERS}
        report = compare(fn, *arguments, **{**peers, **dict.fromkeys(args.without, False)}, seconds=args.seconds, threads=args.threads)
    except CommandError as error:
        print(f"staticgraph compare: {error}", file=sys.stderr)
        return 2
    except TypeError as error:
        print(f"staticgraph compare: {error}", file=sys.stderr)
        for note in getattr(error, "__notes__", []):
            print(f"  {note}", file=sys.stderr)
        return 2
    report.table()
    try:
        for path, write in ((args.html, report.html), (args.json, report.to_json), (args.plot, lambda path: report.plot(path, args.only))):
            if path:
                write(path)
                print(f"wrote {path}")
    except (ImportError, OSError, ValueError) as error:
        print(f"staticgraph compare: {error}", file=sys.stderr)
        return 2
    return 0 if report.equal and not any(r.failed for r in report.rows) else 1


class CommandError(Exception):
    """The command line or the file does not say enough."""


def load(what: str) -> tuple[Any, Callable[..., Any], str]:
    """(module, function, its name) of ``FILE:FUNCTION``. The file's folder can be imported from, as for a script."""
    path, colon, name = what.rpartition(":")
    if not colon or not name:
        raise CommandError(f"give FILE:FUNCTION, such as model.py:loss, got {what!r}")
    file = Path(path)
    if not file.is_file():
        raise CommandError(f"there is no file {path!r}")
    spec = importlib.util.spec_from_file_location(f"compared_{file.stem}", file)         # a name that shadows no other module
    if spec is None or spec.loader is None:
        raise CommandError(f"{path!r} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.resolve().parent))
    sys.modules[module.__name__] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise CommandError(f"{path} does not run: {type(error).__name__}: {error}") from error
    fn = getattr(module, name, None)
    if not callable(fn):
        known = sorted(k for k, v in vars(module).items() if callable(v) and getattr(v, "__module__", None) == module.__name__)
        raise CommandError(f"{path} has no function {name!r}; it has {', '.join(known) or 'none'}")
    return module, fn, name


def example(module: Any, rng: np.random.Generator, what: str) -> tuple[Any, ...]:
    """The arguments that the file gives."""
    if hasattr(module, "example"):
        made = module.example(rng)
        return tuple(made) if isinstance(made, (tuple, list)) else (made,)
    if hasattr(module, "init") and hasattr(module, "batch"):
        return (module.init(rng), *module.batch(rng))
    raise CommandError(f"{what.rpartition(':')[0]} gives no arguments: write a function example(rng) in it that returns them")
