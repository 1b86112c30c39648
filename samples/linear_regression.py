"""A TF1-style program: fit a line by gradient descent."""

import numpy as np

import staticgraph as tf

tf.set_random_seed(1)
rng = np.random.default_rng(0)
xs = rng.uniform(-1, 1, 100).astype(np.float32)
ys = 3 * xs + 2 + 0.1 * rng.normal(size=100).astype(np.float32)

X = tf.placeholder(tf.float32, [None], name="X")
Y = tf.placeholder(tf.float32, [None], name="Y")
w = tf.Variable(tf.random_normal([]), name="weight")
b = tf.Variable(0.0, name="bias")
cost = tf.reduce_mean(tf.square(w * X + b - Y))
train = tf.train.GradientDescentOptimizer(0.1).minimize(cost)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for epoch in range(200):
        _, c = sess.run([train, cost], feed_dict={X: xs, Y: ys})
        if epoch % 40 == 0:
            print(f"epoch {epoch:3d}  cost {c:.4f}")
    weight, bias = sess.run([w, b])
print(f"y = {weight:.2f} x + {bias:.2f}")
