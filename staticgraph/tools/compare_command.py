"""``staticgraph compare FILE:FUNCTION``: what ``sg.compare`` finds, from the command line.

Arguments come from the file: from its function ``example``, else from ``init(rng)`` and ``batch(rng)`` (the models in ``samples/models``).
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from .compare_charts import KEYS
from .user_file import CommandError, example, load

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
    p.add_argument("--only", metavar="PICTURE", choices=KEYS, help=f"with --plot: one of {', '.join(KEYS)}")
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
        arguments = example(module, np.random.default_rng(args.seed))        # what goes wrong in the user's code is shown with its traceback
    except CommandError as error:
        return _cannot(error)
    peers: dict[str, Any] = {p: getattr(module, f"{name}_{p}", None) for p in PEERS}
    try:
        report = compare(fn, *arguments, **{**peers, **dict.fromkeys(args.without, False)}, seconds=args.seconds, threads=args.threads)
    except (TypeError, ValueError) as error:
        return _cannot(error)
    report.table()
    try:
        for path, write in ((args.html, report.html), (args.json, report.to_json), (args.plot, lambda path: report.plot(path, args.only))):
            if path:
                write(path)
                print(f"wrote {path}")
    except (ImportError, OSError, ValueError) as error:
        return _cannot(error)
    return 0 if report.equal and not any(r.failed for r in report.rows) else 1


def _cannot(error: Exception) -> int:
    for line in (f"staticgraph compare: {error}", *(f"  {note}" for note in getattr(error, "__notes__", []))):
        print(line, file=sys.stderr)
    return 2
