"""The command line: ``staticgraph demo``, ``compare``, ``info`` ... A larger subcommand has a file of its own: ``add(sub)`` and ``run(args)``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from . import compare_command, export_command


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand; returns the exit code."""
    parser = argparse.ArgumentParser(prog="staticgraph", description="A define-then-run graph compiler.")
    sub = parser.add_subparsers(dest="command", required=True)
    demo = sub.add_parser("demo", help="train a digits classifier and show what the compiler did")
    demo.add_argument("--epochs", type=int, default=30, help="passes over the training set (default 30)")
    demo.add_argument("--batch", type=int, default=64, help="images per step (default 64)")
    demo.add_argument("--seed", type=int, default=1, help="seed of weights and order (default 1)")
    demo.add_argument("--plot", default="demo-loss.png", help="file for the loss curve, where matplotlib is installed (default demo-loss.png)")
    info = sub.add_parser("info", help="versions, processor, operations")
    info.add_argument("--ops", action="store_true", help="list every operation and how it runs")
    compare_command.add(sub)
    export_command.add(sub)
    args = parser.parse_args(argv)
    if args.command == "demo":
        from .demo import run
        return run(args.epochs, args.batch, args.seed, args.plot)
    if args.command == "compare":
        return compare_command.run(args)
    if args.command == "export":
        return export_command.run(args)
    from .info import show
    show(args.ops)
    return 0


if __name__ == "__main__":
    sys.exit(main())
