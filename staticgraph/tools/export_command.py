"""``staticgraph export FILE:FUNCTION``: a shared object and its header from the command line."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .user_file import CommandError, example, load

HELP = "write a graph as one shared object and one C header that need nothing else"
_EPILOG = """Either FUNCTION takes no arguments, builds a graph and returns the arguments of sg.export.shared_object:
  def model():
      ...
      return {"inputs": {"x": x}, "outputs": {"y": y}, "session": sess}
or, as the models in samples/models, it takes arrays, the first of which may be a dict of weights that become constants:
  def init(rng): ...  def batch(rng): ...  def predict(params, x): ...
Its inputs then have the names of FUNCTION's parameters and, beyond their first size, the shapes that batch (or example) gives; an .npz file
of --weights takes the place of init.

exit code: 0 written; 1 the graph cannot be exported (the message names the operation and its line); 2 the command cannot be carried out."""


def add(sub: Any) -> None:
    """Add the subcommand to a parser."""
    p = sub.add_parser("export", help=HELP, description=HELP, epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", metavar="FILE:FUNCTION", help="a Python file and a function in it, such as samples/models/mlp.py:predict")
    p.add_argument("-o", "--output", metavar="OBJECT", help="the object to write; its header stands beside it (default FUNCTION.so)")
    p.add_argument("--name", help="prefix of the C functions (default: the object's name)")
    p.add_argument("--state", choices=("frozen", "owned"), help="variables as constants, or in a state that the caller owns (default frozen)")
    p.add_argument("--batch", metavar="SIZE", help="dynamic, fixed, or a number for open sizes (default dynamic for a function of arrays)")
    p.add_argument("--gradients", action="store_true", default=None, help="NAME_vjp and NAME_jvp as well")
    p.add_argument("--target", action="append", help="portable (default), native, x86-64-v3, aarch64-linux ...; repeated: several in one object")
    p.add_argument("--format", choices=("shared", "static", "object", "llvm", "asm"), help="what to write (default shared)")
    p.add_argument("--weights", metavar="FILE.npz", help="weights by name, in the place of init(rng)")
    p.add_argument("--seed", type=int, default=0, help="seed of init, batch and example (default 0)")


def run(args: argparse.Namespace) -> int:
    """Carry it out; the exit code."""
    import staticgraph as sg
    try:
        module, fn, name = load(args.what)
        with sg.Graph().as_default():
            given = _arguments(module, fn, args)
            for key in ("state", "format", "name", "gradients"):
                if getattr(args, key) is not None:
                    given[key] = getattr(args, key)
            if args.batch is not None:
                given["batch"] = int(args.batch) if args.batch.isdigit() else args.batch
            if args.target:
                given["targets" if len(args.target) > 1 else "target"] = args.target if len(args.target) > 1 else args.target[0]
            suffix = {"llvm": ".ll", "asm": ".s", "object": ".o", "static": ".a"}.get(given.get("format", "shared"), ".so")
            made = sg.export.shared_object(args.output or name + suffix, **given)
    except sg.errors.Error as error:
        print(f"staticgraph export: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except (CommandError, OSError, ValueError, TypeError, RuntimeError) as error:
        print(f"staticgraph export: {error}", file=sys.stderr)
        return 2
    print(f"wrote {made.path} ({made.path.stat().st_size:,} bytes) and {made.header}")
    for entry in made.manifest["entries"]:
        print(f"  {entry['symbol']}({', '.join(i['name'] for i in entry['inputs'])}) -> {', '.join(o['name'] for o in entry['outputs'])}")
    return 0


def _arguments(module: Any, fn: Callable[..., Any], args: argparse.Namespace) -> dict[str, Any]:
    """The arguments of ``shared_object``, but for those that the command line gives."""
    import staticgraph as sg
    parameters = [p.name for p in inspect.signature(fn).parameters.values() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    if not parameters:
        made = fn()
        if not isinstance(made, dict) or not {"inputs", "outputs"} <= made.keys():
            raise CommandError("the function must return a dict with inputs and outputs, and what else sg.export.shared_object takes")
        return dict(made)
    weights = None if args.weights is None else dict(np.load(args.weights, allow_pickle=False))
    arrays = example(module, np.random.default_rng(args.seed), weights)
    if len(arrays) < len(parameters):
        raise CommandError(f"the function takes {', '.join(parameters)}, and the file gives {len(arrays)} of them")
    inputs, values = {}, []
    for p, a in zip(parameters, arrays):
        if isinstance(a, dict):
            values.append({k: sg.constant(v) for k, v in a.items()})
        else:
            a = np.asarray(a)
            inputs[p] = sg.placeholder(sg.as_dtype(a.dtype), [None, *a.shape[1:]] if a.ndim else [], name=p)
            values.append(inputs[p])
    result = fn(*values)
    named = result if isinstance(result, dict) else {f"y{k}": r for k, r in enumerate(result)} if isinstance(result, (list, tuple)) else {"y": result}
    return {"inputs": inputs, "outputs": named, "session": sg.Session(), "batch": "dynamic"}
