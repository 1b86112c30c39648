"""Fusion changes what is stored, never a bit: programs compiled with and without it, and how many passes over memory remain."""

from __future__ import annotations

import numpy as np
import pytest

import staticgraph as sg

ROWS, COLUMNS = 48, 80


def compiled(fetches, feeds, optimize):
    """(values, kernel titles) of the fetches for feeds {placeholder: array}."""
    with sg.Session(config=sg.Config(optimize=optimize, threads=1)) as session:
        values = session.run(fetches, feeds)
        return values, session.last_executable.report.kernels


def same(a, b):
    """Equal bit for bit, NaN aside."""
    assert a.dtype == b.dtype and a.shape == b.shape
    assert a.tobytes() == b.tobytes() or np.array_equal(a, b, equal_nan=True), np.abs(a - b).max()


def random_program(rng, x, y, scale):
    """Some values computed from two matrices and a row, by elementwise ops, sums and maxima over rows and columns."""
    matrices, out = [x, y], []
    columns, lines = [], [scale]
    for _ in range(int(rng.integers(8, 22))):
        a, b = (matrices[int(k)] for k in rng.integers(0, len(matrices), 2))
        kind = rng.integers(0, 9)
        if kind < 3:
            matrices.append((a + b, a * b * 0.25, sg.maximum(a, b))[kind])
        elif kind == 3:
            matrices.append(sg.tanh(a))
        elif kind == 4:
            columns.append(sg.reduce_sum(a, [1], keepdims=True) * 0.125)
        elif kind == 5:
            columns.append(sg.reduce_max(a * b, [1], keepdims=True))
        elif kind == 6:
            lines.append(sg.reduce_mean(a, [0], keepdims=True))
        elif kind == 7 and columns:
            matrices.append(a - columns[int(rng.integers(0, len(columns)))])
        else:
            matrices.append(a * lines[int(rng.integers(0, len(lines)))])
    for part in (matrices[2:], columns, lines[1:]):
        out += [part[int(k)] for k in rng.integers(0, len(part), min(2, len(part)))] if part else []
    return out or [x + y]


@pytest.mark.parametrize("seed", range(16))
def test_random_programs_have_the_same_bits_with_and_without_fusion(seed):
    rng = np.random.default_rng(seed)
    kind = np.float32 if seed % 2 else np.float64
    with sg.Graph().as_default():
        x, y, scale = (sg.placeholder(kind, s) for s in ([ROWS, COLUMNS], [ROWS, COLUMNS], [COLUMNS]))
        fetches = random_program(rng, x, y, scale)
        feeds = {t: rng.normal(size=t.shape.as_list()).astype(kind) for t in (x, y, scale)}
        fused, few = compiled(fetches, feeds, "O2")
        alone, many = compiled(fetches, feeds, "O1")
        asked, _ = compiled(fetches[:1], feeds, "O0")
    for a, b in zip(fused, alone):
        same(a, b)
    same(fused[0], asked[0])
    assert len(few) <= len(many)


def norm(x, gamma, beta):
    mean, variance = sg.nn.moments(x, [-1], keep_dims=True)
    return (x - mean) * sg.rsqrt(variance + 1e-5) * gamma + beta


def test_layer_norm_and_its_gradient_read_the_rows_twice_in_all():
    # once by rows (forward and the gradient by x: rows stay in cache), once by columns (the gradients of gain and bias)
    rng = np.random.default_rng(0)
    with sg.Graph().as_default():
        x, dy = (sg.placeholder(np.float32, [256, 96]) for _ in range(2))
        gamma, beta = (sg.placeholder(np.float32, [96]) for _ in range(2))
        out = norm(x, gamma, beta)
        fetches = [out, *sg.gradients(out, [x, gamma, beta], grad_ys=dy)]
        feeds = {t: rng.normal(size=t.shape.as_list()).astype("f4") for t in (x, dy, gamma, beta)}
        fused, kernels = compiled(fetches, feeds, "O2")
        alone, _ = compiled(fetches, feeds, "O1")
    assert len(kernels) == 2, kernels
    for a, b in zip(fused, alone):
        same(a, b)
    centred = feeds[x].astype("f8") - feeds[x].mean(1, dtype="f8", keepdims=True)
    hat = centred / np.sqrt((centred ** 2).mean(1, keepdims=True) + 1e-5)
    inner = feeds[dy].astype("f8") * feeds[gamma]
    dx = (inner - inner.mean(1, keepdims=True) - hat * (inner * hat).mean(1, keepdims=True)) / np.sqrt((centred ** 2).mean(1, keepdims=True) + 1e-5)
    for got, want in zip(fused, (hat * feeds[gamma] + feeds[beta], dx, (feeds[dy] * hat).sum(0), feeds[dy].sum(0, dtype="f8"))):
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("op", [sg.nn.softmax, sg.nn.log_softmax], ids=["softmax", "log_softmax"])
def test_softmax_and_its_gradient_are_one_kernel(op):
    with sg.Graph().as_default():
        x, dy = (sg.placeholder(np.float32, [64, 100]) for _ in range(2))
        y = op(x)
        fetches = [y, sg.gradients(y, [x], grad_ys=dy)[0]]
        feeds = {t: np.random.default_rng(k).normal(size=(64, 100)).astype("f4") for k, t in enumerate((x, dy))}
        fused, kernels = compiled(fetches, feeds, "O2")
        alone, _ = compiled(fetches, feeds, "O1")
    assert len(kernels) == 1, kernels
    for a, b in zip(fused, alone):
        same(a, b)


def test_a_reader_of_a_variable_is_not_joined_with_its_update():
    # the loss reads the old value by rows; joined with the update it would cost a copy of the variable, or read the new one
    with sg.Graph().as_default():
        start = np.arange(12.0).reshape(3, 4)
        v = sg.get_variable("v", initializer=start)
        total = sg.reduce_sum(v * v, [1])
        update = v.assign_sub(v * 0.5)
        with sg.Session() as session:
            session.run(sg.global_variables_initializer())
            got, _ = session.run([total, update.op])
            assert np.array_equal(got, (start ** 2).sum(1))
            assert np.array_equal(session.run(v), start / 2)
            assert session.last_executable is not None


@pytest.mark.parametrize("size", [37, 256, 5000, 40_001])
@pytest.mark.parametrize("kind", ["f4", "f8", "i4"])
def test_a_result_lies_anywhere_and_nothing_beside_it_is_written(size, kind):
    # the caller's arrays are aligned to their dtype only: the first elements, up to a whole cache line, are a masked vector
    x = np.arange(size).astype(kind)
    with sg.Graph().as_default(), sg.Session(config=sg.Config(threads=1)) as session:
        p = sg.placeholder(x.dtype, [size])
        session.run(p * 2 + 1, {p: x})
        native = next(iter(session.last_executable.variants.values())).native
        for shift in range(17):
            room = np.full(size + 40, -7, kind)
            assert native.run([x], [room[shift:shift + size]], [], [])[0] == 0
            np.testing.assert_array_equal(room[shift:shift + size], x * 2 + 1)
            assert (room[:shift] == -7).all() and (room[shift + size:] == -7).all()


def test_equal_layers_are_written_once_and_computed_apart():
    # the text of a kernel is made for the first of equal groups; each has its own operands, guards and scratch memory
    layers, width = 5, 24
    rng = np.random.default_rng(3)
    weights = [rng.normal(size=(width, width)).astype("f4") / 5 for _ in range(layers)]
    picks = [rng.integers(0, 6, 4).astype("i4") for _ in range(layers)]
    x = rng.normal(size=(6, width)).astype("f4")
    with sg.Graph().as_default(), sg.Session(config=sg.Config(threads=1)) as session:
        fed = sg.placeholder(np.float32, x.shape)
        ws = [sg.placeholder(np.float32, w.shape) for w in weights]
        ids = [sg.placeholder(np.int32, p.shape) for p in picks]
        h, out = fed, []
        for w, i in zip(ws, ids):
            h = sg.nn.softmax(sg.tanh(sg.matmul(h, w)) - sg.reduce_mean(h, [1], keepdims=True))
            out.append(sg.gather(h, i))
        feeds = {fed: x, **dict(zip(ws, weights)), **dict(zip(ids, picks))}
        got = session.run(out, feeds)
        variant = next(iter(session.last_executable.variants.values()))
        assert len(variant.program.texts) < len(variant.program.kernels) / 2
        want = x.astype("f8")
        for w, i, y in zip(weights, picks, got):
            z = np.exp(np.tanh(want @ w) - want.mean(1, keepdims=True))
            want = z / z.sum(1, keepdims=True)
            np.testing.assert_allclose(y, want[i], rtol=2e-5)
        executable, bad = session.last_executable, np.array([0, 1, 9, 2], "i4")
        for wrong in ids:
            given = {t.node: v for t, v in {**feeds, wrong: bad}.items()}
            outs = [np.empty((4, width), "f4") for _ in out]
            status, error = variant.native.run([given[i.key] for i in executable.inputs], outs, [], [])
            source = variant.program.checks[error.check]
            while source.inputs:
                source = source.inputs[0]
            assert status == 1 and executable.inputs[source.attr("index")].key is wrong.node


@pytest.mark.parametrize("shape", [(5, 700), (100, 513), (1030, 256), (2, 35, 300), (2100, 90), (33, 1)], ids=str)
@pytest.mark.parametrize("kind", ["f4", "f8", "i4"])
def test_sums_down_columns_take_element_r_to_chain_r_mod_4(shape, kind):
    # narrow arrays keep chains in registers, wide ones in memory, long ones are cut into blocks of 1,024 rows: one order, spelled out here
    rng = np.random.default_rng(1)
    x = (rng.normal(size=shape) * 100).astype(kind)
    with sg.Graph().as_default():
        p = sg.placeholder(x.dtype, shape)
        got, _ = compiled(sg.reduce_sum(p, [len(shape) - 2]), {p: x}, "O2")

    def chained(rows):
        chains = [np.zeros_like(rows[..., 0, :]) for _ in range(4)]
        for r in range(rows.shape[-2]):
            chains[r % 4] = chains[r % 4] + rows[..., r, :]
        return (chains[0] + chains[2]) + (chains[1] + chains[3])
    blocks = [chained(x[..., k:k + 1024, :]) for k in range(0, shape[-2], 1024)]
    same(got, blocks[0] if len(blocks) == 1 else chained(np.stack(blocks, -2)))
