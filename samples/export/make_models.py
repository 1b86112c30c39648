"""Export the digits model twice: trained, for inference, and untrained with its training step. Writes what the C programs read.

    python make_models.py [FOLDER]

digits.*   logits of images, weights as constants, any batch size
train.*    a step of Adam on a batch of 64 with its state, and predictions from the same state
images.bin labels.bin      the test images (float32) and their digits (int32)
batches.bin                the training images and digits in the order of the steps
trained.bin                the state after these steps in Python, for comparison
"""

import sys
from pathlib import Path

import numpy as np

import staticgraph as sg
from staticgraph.data import load_digits

sys.path.insert(0, str(Path(__file__).parent.parent))

from models import mlp

BATCH, EPOCHS = 64, 20
TARGETS = {"digits.wasm": "wasm32", "digits.so": "portable"}


def main(folder):
    """Train in Python, step by step on the same batches as C will, and export before and after."""
    xs, ts, test_x, test_t = load_digits()
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(xs))[:len(xs) // BATCH * BATCH] for _ in range(EPOCHS)]
    rows = np.concatenate(orders)
    x, t = xs[rows].reshape(-1, BATCH, 64), ts[rows].reshape(-1, BATCH)

    (px, pt), params, loss, step = mlp.training_step()
    y = mlp.predict(params, px)
    with sg.Session() as sess:
        sess.run(sg.global_variables_initializer())
        train = sg.export.shared_object(folder / "train.so", {"x": px, "t": pt}, {"loss": loss, "step": step}, sess, state="owned",
                                        batch={"x": (BATCH, 64), "t": (BATCH,)})
        fast = sess.make_callable([loss, step], [px, pt])
        for k in range(len(x)):
            last = fast(x[k], t[k])[0]
        loaded = sg.export.load(train.path)
        print(f"Python trained {len(x)} steps, loss {last:.6f}")
        predict = sg.argmax(y, 1, output_type=sg.int32)
        for name, target in TARGETS.items():
            try:
                sg.export.shared_object(folder / name, {"x": px}, {"y": y, "digit": predict}, sess, batch="dynamic", target=target, name="digits")
            except sg.export.LinkError as error:
                print(f"{name} is left out: {error}")
        accuracy = (sess.run(predict, {px: test_x}) == test_t).mean()
        print(f"accuracy on {len(test_x)} test images {100 * accuracy:.2f} %")
        state = loaded.new_state()
        for v in sg.global_variables():
            state[v.op.name] = sess.run(v)
        (folder / "trained.bin").write_bytes(state.save())
    test_x.astype("<f4").tofile(folder / "images.bin")
    test_t.astype("<i4").tofile(folder / "labels.bin")
    with (folder / "batches.bin").open("wb") as file:
        for k in range(len(x)):
            file.write(x[k].astype("<f4").tobytes() + t[k].astype("<i4").tobytes())


if __name__ == "__main__":
    if len(sys.argv) > 2 or sys.argv[1:] in (["-h"], ["--help"]):
        raise SystemExit(__doc__)
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
