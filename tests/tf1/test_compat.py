"""Statements 89 and 167: the namespace of TF 1.15, flags and ``app.run``, in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

import staticgraph.compat.v1 as tf


def test_089_names_of_1_15_and_no_others():
    for name in ("mul", "sub", "neg", "pack", "unpack", "select", "inv", "listdiff", "concat_v2", "scalar_summary", "vmap", "function", "check"):
        assert not hasattr(tf, name), name
    for name in ("initialize_all_variables", "all_variables", "div", "to_float", "Session", "float32", "reduce_sum", "bool", "range", "nn", "app"):
        assert hasattr(tf, name) and name in dir(tf), name
    assert not hasattr(tf.train, "SummaryWriter")
    for name in dir(tf):
        getattr(tf, name)


def python(tmp_path, text, *args):
    """Output of a program that imports tensorflow."""
    program = tmp_path / "program.py"
    program.write_text(text)
    root = Path(__file__).parents[2]
    start = f"""import sys, runpy
sys.path.insert(0, {str(root)!r})
import staticgraph.compat.v1 as v1
v1.install_as_tensorflow()
sys.argv = sys.argv[1:]
runpy.run_path({str(program)!r}, run_name='__main__')"""
    return subprocess.run([sys.executable, "-c", start, str(program), *args], capture_output=True, text=True, timeout=300)


PROGRAM = """
import tensorflow as tf
from tensorflow.python.framework import ops
flags = tf.app.flags
flags.DEFINE_integer("steps", 3, "how many")
flags.DEFINE_float("rate", 0.5, "how fast")
flags.DEFINE_boolean("loud", True, "say so")
flags.DEFINE_string("name", "v", "of the variable")
FLAGS = flags.FLAGS

def main(argv):
    ops.reset_default_graph()
    tf.logging.set_verbosity(tf.logging.INFO)
    v = tf.Variable(1.0, name=FLAGS.name)
    train = tf.train.GradientDescentOptimizer(FLAGS.rate).minimize(v * v / 2.0)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(FLAGS.steps):
            sess.run(train)
        print(v.op.name, sess.run(v), FLAGS.loud, argv[1:])
    tf.logging.info("done")
    return 3

if __name__ == "__main__":
    tf.app.run()
"""


def test_167_a_program_with_flags(tmp_path):
    done = python(tmp_path, PROGRAM)
    assert done.stdout == "v 0.125 True []\n" and done.returncode == 3 and "INFO:tensorflow:done" in done.stderr
    done = python(tmp_path, PROGRAM, "--steps=1", "--rate", "0.25", "--noloud", "--name=w", "rest")
    assert done.stdout == "w 0.75 False ['rest']\n"
    done = python(tmp_path, PROGRAM, "--unknown=1")
    assert done.returncode == 1 and "Unknown command line flag 'unknown'" in done.stderr


def test_167_flags_are_read_at_their_first_use(monkeypatch):
    flags = tf.flags.FlagValues()
    flags._define("n", tf.flags._Flag(1, int, None))
    monkeypatch.setattr(sys, "argv", ["program", "--n=5", "--other=2"])
    assert flags.n == 5 and "n" in flags
    flags.n = 6
    assert flags.flag_values_dict() == {"n": 6}
    for call in (lambda: flags.missing, lambda: setattr(flags, "missing", 1)):
        with pytest.raises(AttributeError):
            call()
