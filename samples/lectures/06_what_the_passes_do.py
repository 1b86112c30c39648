"""Lecture 6: what a compiler does to a graph: merge, drop, fold, simplify, fuse. The graph is shown after each.

A pass is a function from graph to graph that keeps every result, to the last bit. Here each runs alone; a real compile runs the first
four together, to their common end.
"""
# %%
import numpy as np
from stage import Stage, seconds, traffic, work

import staticgraph as sg
from passes.pipeline import SINGLE

stage = Stage("6. What the passes do")
passes = {p.name: p for p in SINGLE}
x_value = np.linspace(0.0, 3.0, 200_000)


# %% A program as people write them: something computed twice, something that could be known, something that changes nothing.
def program(x):
    """The sum of 6 sin(x) + sin(x) + x."""
    six = sg.constant(2.0, sg.float64) * sg.constant(3.0, sg.float64)        # known while compiling
    a = sg.sin(x) * six
    b = sg.sin(x) + x * 1.0                                                  # sin(x) again; times one
    _ = sg.exp(b)                                                            # nobody asks for it
    return sg.reduce_sum(a - (-b))                                           # minus minus


with sg.Graph().as_default() as ledger:
    x = sg.placeholder(sg.float64, x_value.shape, name="x")
    y = program(x)
graph = ledger.ir
graph.outputs = (y.node,)

# %% Each pass alone. The line of this file that made a node stays with it; a merged node keeps both lines.
rows = []


def show(title, graph):
    """The graph, and its size."""
    stage.heading(title)
    stage.graph(graph)
    rows.append((title.partition(":")[0], len(graph), f"{work(graph) / x_value.size:.0f}"))


show("as written", graph)
stage.drawing("06_as_written.svg", "as written", graph)
for name, what in (("cse", "merge: equal operations on equal operands are one"), ("dce", "drop: what no result needs"),
                   ("fold", "fold: what is constant is computed now"),
                   ("algebra", "simplify: x * 1 is x, a - (-b) is a + b, and such, where no bit changes")):
    graph = passes[name](graph)
    show(what, graph)
stage.drawing("06_simplified.svg", "merged, pruned, folded, simplified", graph)
stage.heading("the graph after each pass")
stage.table(("after", "nodes", "operations per element"), rows)

# %% The gradient profits more: its rules write adjoints without looking left or right, and leave the tidying to the passes.
stage.heading("value and gradient: rules that fired in a real compile")
with ledger.as_default():
    slope, = sg.gradients(y, [x])
session = sg.Session(graph=ledger)
session.run([y, slope], {x: x_value})
report = session.last_executable.report
for change in report.changes:
    print(f"{change.rule:16s} line {change.site.line}   {change.before.partition(' = ')[2].partition('(value')[0]}")
print(f"{report.passes[0].nodes} nodes became {report.passes[-1].nodes}. x * 0 is not among the rules: for infinity it is not 0")

# %% Fusion. Unfused, each operation is a loop that reads arrays and writes one. Fused, values stay in registers between operations.
stage.heading("fuse: from a loop per operation to one loop")
rows, callables, moved, answers = [], [], {}, []
for level, what in (("O0", "as written"), ("O1", "after the passes"), ("O2", "fused")):
    session = sg.Session(graph=ledger, config=sg.Config(optimize=level, threads=1))
    answers.append([np.asarray(v).tobytes() for v in session.run([y, slope], {x: x_value})])
    executable = session.last_executable
    kernels = executable.report.kernels
    moved[f"{level}\n{what}"] = traffic(executable) / 1e6
    rows.append((f"{level} {what}", len(kernels), f"{executable.report.arena_bytes / 1e6:.1f} MB", f"{traffic(executable) / 1e6:.1f} MB"))
    callables.append(session.make_callable([y, slope], [x]))
stage.table(("level", "kernels", "memory for intermediates", "read and written"), rows)
print("kernels of O2:", "; ".join(kernels))
print("all levels give the same bits:", answers[0] == answers[1] == answers[2])
times = seconds(*(lambda c=c: c(x_value) for c in callables))
stage.time(";  ".join(f"{row[0]} {1e6 * t:.0f} us" for row, t in zip(rows, times)))

# %%
stage.bars("06_fusion.png", "Bytes moved for the value and its gradient", "MB read and written", moved)
