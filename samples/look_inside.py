"""A graph as written, its gradient, and what each pass leaves of it."""

import numpy as np

import staticgraph as sg

with sg.Graph().as_default():
    x = sg.placeholder(sg.float32, [4], name="x")
    y = sg.reduce_sum(sg.sigmoid(x * 1.0) * (x + sg.constant(2.0) * sg.constant(3.0)))
    g, = sg.gradients(y, [x])
    with sg.Session() as sess:
        print("value and gradient:", *sess.run([y, g], {x: np.arange(4)}))
        exe = sess.last_executable
        print("\nnodes after each pass, kernels, memory and times:\n")
        print(exe.report)
        print("\nthe graph that became machine code:\n")
        print(next(iter(exe.variants.values())).graph)
