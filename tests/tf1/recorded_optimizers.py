"""Five steps of each optimizer, dense and by rows, with the library at hand: ``recorded_optimizers.json`` is this with TF 1.15.5.

    python tests/tf1/recorded_optimizers.py tensorflow > tests/tf1/recorded_optimizers.json
"""

import contextlib
import importlib
import json
import sys

# all exact in float32: TF rounds them to it also for variables of float64
RATE = {"learning_rate": 0.125}
CASES = {
    "GradientDescent": ("GradientDescentOptimizer", RATE),
    "Momentum": ("MomentumOptimizer", {**RATE, "momentum": 0.875}),
    "Nesterov": ("MomentumOptimizer", {**RATE, "momentum": 0.875, "use_nesterov": True}),
    "Adam": ("AdamOptimizer", {**RATE, "beta1": 0.875, "beta2": 0.9375, "epsilon": 2.0**-27}),
    "Adam of other decays": ("AdamOptimizer", {**RATE, "beta1": 0.5, "beta2": 0.75, "epsilon": 2.0**-7}),
    "Adagrad": ("AdagradOptimizer", RATE),
    "Adadelta": ("AdadeltaOptimizer", {"learning_rate": 1.0, "rho": 0.875, "epsilon": 2.0**-13}),
    "RMSProp": ("RMSPropOptimizer", {**RATE, "decay": 0.875, "epsilon": 2.0**-33}),
    "RMSProp with momentum": ("RMSPropOptimizer", {**RATE, "decay": 0.875, "momentum": 0.5, "epsilon": 2.0**-10}),
    "RMSProp centered": ("RMSPropOptimizer", {**RATE, "decay": 0.875, "momentum": 0.5, "epsilon": 2.0**-10, "centered": True}),
    "Ftrl": ("FtrlOptimizer", RATE),
    "Ftrl of other powers": ("FtrlOptimizer", {**RATE, "learning_rate_power": -0.75, "l1_regularization_strength": 0.0625, "l2_regularization_strength": 0.03125}),
    "Ftrl that shrinks": ("FtrlOptimizer", {**RATE, "l1_regularization_strength": 0.125, "l2_shrinkage_regularization_strength": 0.03125}),
    "ProximalGradientDescent": ("ProximalGradientDescentOptimizer", {**RATE, "l1_regularization_strength": 0.25, "l2_regularization_strength": 0.125}),
    "ProximalAdagrad": ("ProximalAdagradOptimizer", {**RATE, "l1_regularization_strength": 0.25, "l2_regularization_strength": 0.125}),
    "AdagradDA": ("AdagradDAOptimizer", {**RATE, "l1_regularization_strength": 0.0625, "l2_regularization_strength": 0.03125}),
}
START = [[1.0, -2.0], [0.5, 3.0], [-0.25, 0.125]]
ROWS = [[0, 0], [1, 0], [0, 1], [1, 1], [0, 0]]                # the last row never occurs


def steps(tf, case, dtype, rows):
    """The variable after each of five steps."""
    kind, settings = CASES[case]
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable(tf.constant(START, dtype))
        ids = tf.placeholder(tf.int32, [2])
        if rows:
            loss = tf.reduce_sum(tf.square(tf.gather(v, ids)) * tf.constant([1.0, 3.0], dtype))
        else:
            loss = tf.reduce_sum(tf.square(v) * tf.constant([1.0, 3.0], dtype)) + tf.reduce_sum(v)
        count = tf.train.get_or_create_global_step()
        make = getattr(tf.train, kind)
        optimizer = make(global_step=count, **settings) if kind == "AdagradDAOptimizer" else make(**settings)
        train = optimizer.minimize(loss, global_step=count)
        session.run(tf.global_variables_initializer())
        found = []
        for k in range(5):
            session.run(train, {ids: ROWS[k]})
            found.append([[float(f"{x:.17g}" if dtype == "float64" else f"{x:.9g}") for x in row] for row in session.run(v)])
        return found


def recorded(tf):
    """All cases that the library can do (TF 1.15.5 refuses float64 with l1 or l2 in two of them)."""
    out = {}
    for case in CASES:
        for dtype in ("float32", "float64"):
            for rows in (False, True):
                with contextlib.suppress(TypeError):
                    out[f"{case}, {dtype}, {'rows' if rows else 'dense'}"] = steps(tf, case, dtype, rows)
    return out


if __name__ == "__main__":
    print(json.dumps(recorded(importlib.import_module(sys.argv[1])), separators=(",", ":")).replace('],"', '],\n"'))
