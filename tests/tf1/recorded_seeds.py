"""Parts of common programs whose random numbers are those of TF 1.15 with nothing but ``tf.set_random_seed(1)``: counts of nodes decide.

Run as a program with TensorFlow 1.15 it records the numbers: ``python tests/tf1/recorded_seeds.py tests/tf1/recorded_seeds.json``.
"""
# ruff: noqa

import json
import sys

import numpy as np

PROGRAMS = {}


def program(f):
    PROGRAMS[f.__name__] = f
    return f


@program
def layers_of_random_normal(tf):
    x = tf.placeholder(tf.float32, [None, 4]); y = tf.placeholder(tf.float32, [None, 3])
    w1 = tf.Variable(tf.random_normal([4, 8])); b1 = tf.Variable(tf.random_normal([8]))
    h = tf.nn.relu(tf.add(tf.matmul(x, w1), b1))
    w2 = tf.Variable(tf.random_normal([8, 3], stddev=0.1), name="w2"); b2 = tf.Variable(tf.zeros([3]) + 0.1)
    out = tf.matmul(h, w2) + b2
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=out))
    correct = tf.equal(tf.argmax(out, 1), tf.argmax(y, 1))
    acc = tf.reduce_mean(tf.cast(correct, tf.float32))
    w3 = tf.Variable(tf.truncated_normal([3, 5], stddev=0.1))
    return [w1, b1, w2, w3]


@program
def weight_dictionaries(tf):
    X = tf.placeholder("float", [None, 6]); Y = tf.placeholder("float", [None, 2])
    weights = {"h1": tf.Variable(tf.random_normal([6, 4])), "h2": tf.Variable(tf.random_normal([4, 4])), "out": tf.Variable(tf.random_normal([4, 2]))}
    biases = {"b1": tf.Variable(tf.random_normal([4])), "b2": tf.Variable(tf.random_normal([4])), "out": tf.Variable(tf.random_normal([2]))}
    return list(weights.values()) + list(biases.values())


@program
def convolutions(tf):
    x = tf.placeholder(tf.float32, [None, 64]); keep = tf.placeholder(tf.float32)
    img = tf.reshape(x, [-1, 8, 8, 1])
    def wv(shape): return tf.Variable(tf.truncated_normal(shape, stddev=0.1))
    def bv(shape): return tf.Variable(tf.constant(0.1, shape=shape))
    w1, b1 = wv([3, 3, 1, 4]), bv([4])
    h = tf.nn.relu(tf.nn.conv2d(img, w1, strides=[1, 1, 1, 1], padding="SAME") + b1)
    p = tf.nn.max_pool(h, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    w2, b2 = wv([64, 10]), bv([10])
    flat = tf.reshape(p, [-1, 4 * 4 * 4])
    d = tf.nn.dropout(tf.nn.relu(tf.matmul(flat, w2) + b2), keep)
    w3 = wv([10, 2])
    return [w1, w2, w3]


@program
def get_variables(tf):
    x = tf.placeholder(tf.float32, [None, 4])
    with tf.variable_scope("a"):
        w = tf.get_variable("w", [4, 5]); b = tf.get_variable("b", [5], initializer=tf.zeros_initializer())
        h = tf.tanh(tf.nn.xw_plus_b(x, w, b))
    with tf.variable_scope("b"):
        w2 = tf.get_variable("w", [5, 5], initializer=tf.random_normal_initializer(stddev=0.02))
        w3 = tf.get_variable("w3", [5, 5], initializer=tf.truncated_normal_initializer(stddev=0.02))
        w4 = tf.get_variable("w4", [5, 5], initializer=tf.glorot_normal_initializer())
        w5 = tf.get_variable("w5", [5, 5], initializer=tf.random_uniform_initializer(-1, 1))
        w6 = tf.get_variable("w6", [5], initializer=tf.constant_initializer(0.1))
        w7 = tf.get_variable("w7", [5, 2], initializer=tf.variance_scaling_initializer(2.0))
    return [w, w2, w3, w4, w5, w7]


@program
def losses_by_hand(tf):
    x = tf.placeholder(tf.float32, [None, 3], name="x"); y = tf.placeholder(tf.float32, [None])
    w = tf.Variable(tf.random_uniform([3, 1], -1.0, 1.0)); b = tf.Variable(0.0)
    pred = tf.reshape(tf.matmul(x, w) + b, [-1])
    mse = tf.reduce_mean(tf.square(pred - y)); mse2 = tf.reduce_sum(tf.pow(pred - y, 2)) / (2 * 100)
    p = tf.nn.sigmoid(pred)
    ce = -tf.reduce_mean(y * tf.log(p + 1e-8) + (1 - y) * tf.log(1 - p + 1e-8))
    ce2 = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=pred))
    ce3 = tf.reduce_mean(-tf.reduce_sum(tf.nn.softmax(x) * tf.log(tf.clip_by_value(tf.nn.softmax(x), 1e-10, 1.0)), reduction_indices=[1]))
    acc = tf.reduce_mean(tf.cast(tf.equal(tf.cast(p > 0.5, tf.float32), y), "float"))
    l2 = tf.nn.l2_loss(w) * 0.01 + tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables()])
    n = tf.random_normal(tf.shape(x)); n2 = tf.random_normal([tf.shape(x)[0], 2]); s = tf.random_shuffle([1, 2, 3, 4, 5])
    return [w, tf.random_normal([3]), tf.random_uniform([3], maxval=10, dtype=tf.int32), s]


@program
def two_networks(tf):
    z = tf.placeholder(tf.float32, shape=[None, 4]); x = tf.placeholder(tf.float32, shape=[None, 6])
    def init(size):
        return tf.random_normal(shape=size, stddev=1. / tf.sqrt(size[0] / 2.))
    d1 = tf.Variable(init([6, 5])); db = tf.Variable(tf.zeros(shape=[5])); d2 = tf.Variable(init([5, 1]))
    g1 = tf.Variable(init([4, 5])); g2 = tf.Variable(init([5, 6]))
    def gen(z): return tf.nn.sigmoid(tf.matmul(tf.nn.relu(tf.matmul(z, g1)), g2))
    def dis(x): return tf.matmul(tf.nn.relu(tf.matmul(x, d1) + db), d2)
    real, fake = dis(x), dis(gen(z))
    dl = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=real, labels=tf.ones_like(real)))
    gl = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=fake, labels=tf.zeros_like(fake)))
    return [d1, d2, g1, g2, tf.random_uniform([2, 2])]


@program
def pieces(tf):
    x = tf.placeholder(tf.float32, [5, 3]); i = tf.placeholder(tf.int32, [None]); t = tf.placeholder(tf.int32, [None, 4])
    emb = tf.Variable(tf.random_uniform([10, 4], -1.0, 1.0)); e = tf.nn.embedding_lookup(emb, t)
    rows = tf.unstack(tf.transpose(e, [1, 0, 2]), num=4); c = tf.concat(rows[:2], 1); sp = tf.split(x, 3, 1)
    m, v = tf.nn.moments(x, [0]); bn = tf.nn.batch_normalization(x, m, v, None, None, 1e-3)
    oh = tf.one_hot(i, 10); f = x[0]; g = x[:, 1:]; s = tf.stack([f, f]); q = tf.tile(tf.expand_dims(f, 0), [2, 1]); gg = tf.gather(emb, i)
    sq = tf.squeeze(tf.reduce_max(x, 1, keep_dims=True)); nn = tf.nn.l2_normalize(emb, 1); r = tf.range(5); z = tf.zeros([tf.shape(t)[0], 4])
    ma = tf.maximum(x, 0.1); sg = tf.stop_gradient(ma); w = tf.where(x > 0, x, -x); cl = tf.clip_by_value(x, -1.0, 1.0); nm = tf.norm(x); pad = tf.pad(x, [[1, 1], [0, 0]])
    k = tf.nn.top_k(x, 2); it = tf.nn.in_top_k(x, [0, 1, 2, 0, 1], 1); td = tf.tensordot(x, tf.ones([3, 2]), 1); cs = tf.cumsum(x)
    init = tf.global_variables_initializer()
    return [emb, tf.random_normal([4]), tf.nn.dropout(x * 0 + 1, 0.5), tf.random_normal([2])]


def numbers(tf, make):
    """Values of what the program returns after its initialiser, every float placeholder of a known rank fed with ones."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        results = make(tf)
        fed = [op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"]
        feeds = {t: np.ones([2 if d is None else d for d in t.shape.as_list()]) for t in fed if t.shape.ndims is not None and t.dtype.is_floating}
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            return [np.asarray(sess.run(t, feeds)).tolist() for t in results]


def main():
    import tensorflow as tf
    with open(sys.argv[1], "w") as f:
        rows = [json.dumps(name) + ": " + json.dumps([np.round(np.array(v, "f8"), 8).tolist() for v in numbers(tf, make)]) for name, make in PROGRAMS.items()]
        f.write("{\n" + ",\n".join(rows) + "\n}\n")


if __name__ == "__main__":
    main()
