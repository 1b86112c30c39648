"""Statements 72 to 96: conversions, dtype rules, static shapes."""

import numpy as np
import pytest

import staticgraph as tf


def test_072_literals():
    values = (1, 2**40, 1.0, True, np.float64(1), np.ones(2, np.int8), [1, 2.0], [], [True, 1])
    kinds = [tf.int32, tf.int64, tf.float32, tf.bool, tf.float64, tf.int8, tf.float32, tf.float32, tf.int32]
    assert [tf.constant(v).dtype for v in values] == kinds
    with pytest.raises(ValueError, match=r"None values not supported."):
        tf.constant(None)
    with pytest.raises((ValueError, TypeError)):
        tf.constant([[1, 2], [3]])


def test_073_lists_with_tensors_are_packed(sess):
    t = tf.convert_to_tensor([tf.constant(1.0), 2])
    assert t.dtype == tf.float32 and list(sess.run(t)) == [1, 2]


def test_073_functions_of_a_list_take_python_lists(sess):
    assert sess.run(tf.concat([[1, 2], [3]], 0)).tolist() == [1, 2, 3] and sess.run(tf.stack([[1, 2], [3, 4]])).tolist() == [[1, 2], [3, 4]]
    assert sess.run(tf.stack([1, tf.constant(2), np.int64(3)])).tolist() == [1, 2, 3] and sess.run(tf.add_n([[1.0, 2.0], [3.0, 4.0]])).tolist() == [4, 6]
    assert sess.run(tf.concat([np.ones((1, 2)), np.zeros((1, 2))], 1)).tolist() == [[1, 1, 0, 0]]
    with pytest.raises(TypeError, match="that don't all match"):
        tf.concat([tf.constant([1]), tf.constant([1.0])], 0)
    with pytest.raises(ValueError, match="shorter than minimum length 1"):
        tf.stack([])


@pytest.mark.parametrize("make, name", [(lambda x, y: x + y, "AddV2"), (tf.add, "Add"), (lambda x, y: x * y, "Mul"), (lambda x, y: x < y, "Less"),
                                        (tf.maximum, "Maximum"), (tf.pow, "Pow")])
def test_074_no_promotion_between_tensors(make, name):
    with pytest.raises(TypeError, match=f"Input 'y' of '{name}' Op has type int32 that does not match type float32 of argument 'x'."):
        make(tf.constant(1.0), tf.constant(1))


def test_075_numbers_adapt_to_tensors():
    f, i = tf.constant(1.0), tf.constant([1, 2])
    assert {(f + 1).dtype, (1 + f).dtype, (2 * f).dtype, (f + np.float64(1)).dtype, (np.array([1.0, 2.0]) * f).dtype} == {tf.float32}
    assert (i * np.array([1.5])).dtype == tf.int32
    with pytest.raises(TypeError):
        i + 1.5


def test_076_constants_of_a_dtype(sess):
    with pytest.raises(TypeError, match=r"Expected int32, got 1.5 of type 'float' instead."):
        tf.constant(1.5, tf.int32)
    assert list(sess.run(tf.constant(np.array([1.7]), tf.int32))) == [1] and sess.run(tf.constant(True, tf.int32)) == 1


def test_077_constants_fill_with_the_last_value(sess):
    assert list(sess.run(tf.constant([1, 2], shape=[4]))) == [1, 2, 2, 2]
    with pytest.raises(ValueError, match="Too many elements provided. Needed at most 2, but received 3"):
        tf.constant([1, 2, 3], shape=[2])


def test_078_no_conversion_of_tensors():
    with pytest.raises(ValueError, match="Tensor conversion requested dtype int32 for Tensor with dtype float32"):
        tf.convert_to_tensor(tf.constant(1.0), tf.int32)


def test_079_division(sess):
    seven, two = tf.constant([7, -7]), tf.constant([2, 2])
    quotient = seven / two
    assert quotient.dtype == tf.float64 and list(sess.run(quotient)) == [3.5, -3.5]
    assert (tf.constant(1, tf.int8) / tf.constant(2, tf.int8)).dtype == tf.float32
    assert [list(sess.run(f(seven, two))) for f in (tf.div, tf.floordiv, tf.mod, tf.truncatediv, tf.truncatemod)] == [[3, -4], [3, -4], [1, 1], [3, -3], [1, -1]]
    assert tf.divide(7, 2) == 3.5
    x = tf.placeholder(tf.int32, [])
    with pytest.raises(tf.errors.InvalidArgumentError, match="Integer division by zero"):
        sess.run(seven // x, {x: 0})
    assert np.isinf(sess.run(tf.constant(1.0) / 0.0))


def test_080_casts(sess):
    assert list(sess.run(tf.cast([2.7, -2.7], tf.int32))) == [2, -2]
    assert list(sess.run(tf.cast([0.0, 0.5], tf.bool))) == [False, True]
    assert list(sess.run(tf.cast([300], tf.uint8))) == [44]
    assert tf.to_float(1).dtype == tf.float32 and list(sess.run(tf.round([0.5, 1.5, 2.5]))) == [0, 2, 2]


def test_081_float_only_operations(sess):
    for f in (tf.sqrt, tf.exp, tf.log, tf.nn.softmax):
        with pytest.raises(TypeError, match="has DataType int32 not in list of allowed values"):
            f(tf.constant([1, 2]))
    assert sess.run(tf.reduce_mean(tf.constant([1, 2, 2]))) == 1


def test_082_argmax(sess):
    t = tf.argmax([[1.0, 3.0], [3.0, 3.0]])
    assert t.dtype == tf.int64 and list(sess.run(t)) == [1, 0]
    assert tf.argmax([[1.0]], dimension=1, output_type=tf.int32).dtype == tf.int32


def test_083_dtype_objects():
    d = tf.float32
    assert d == np.float32 and d == "float32" and repr(d) == "tf.float32" and str(d) == "<dtype: 'float32'>"
    assert (d.name, d.size, d.is_floating, d.as_numpy_dtype, d.base_dtype, d.as_datatype_enum) == ("float32", 4, True, np.float32, d, 1)
    with pytest.raises(TypeError):
        tf.as_dtype("foo")


def test_084_tensors_are_not_python_values():
    t = tf.constant([1.0])
    for f in (bool, iter, len, float):
        with pytest.raises(TypeError):
            f(t)
    with pytest.raises(NotImplementedError):
        np.array(t)


def test_085_equality_is_identity():
    a, b = tf.constant(1), tf.constant(1)
    assert (a == a) is True and (a == b) is False and len({a: 1, b: 2}) == 2


def test_086_no_item_assignment():
    with pytest.raises(TypeError):
        tf.constant([1])[0] = 2


def test_087_named_arguments_of_cross_entropy():
    x = tf.constant([[1.0, 2.0]])
    with pytest.raises(ValueError, match="with named arguments"):
        tf.nn.softmax_cross_entropy_with_logits(x, x)


def test_088_old_keywords():
    x = tf.constant([[1.0, 2.0]])
    assert tf.reduce_sum(x, reduction_indices=1, keep_dims=True).shape.as_list() == [1, 1]
    assert tf.nn.softmax(x, dim=1).shape.as_list() == [1, 2] and tf.expand_dims(x, dim=0).shape.as_list() == [1, 1, 2]
    with pytest.raises(ValueError, match="Cannot specify both"):
        tf.reduce_sum(x, axis=0, reduction_indices=0)


def test_090_tensor_shapes():
    s = tf.TensorShape([None, 3])
    assert s.as_list() == [None, 3] and s.ndims == 2 and len(s) == 2 and str(s) == "(?, 3)"
    assert repr(s) == "TensorShape([Dimension(None), Dimension(3)])" and int(s[1]) == 3 and s[1].value == 3 and f"{int(s[1]):d}" == "3"
    assert isinstance(s[:1], tf.TensorShape) and str(tf.TensorShape(None)) == "<unknown>" and s.num_elements() is None
    assert tf.TensorShape([2, 3]) == [2, 3] and s.concatenate([4]).as_list() == [None, 3, 4] and s.merge_with([2, 3]).as_list() == [2, 3]
    assert not s.is_fully_defined() and s.is_compatible_with([5, 3])
    with pytest.raises(ValueError, match=r"as_list\(\) is not defined on an unknown TensorShape."):
        tf.TensorShape(None).as_list()
    with pytest.raises(ValueError, match=r"Shapes \(\?, 3\) and \(2, 4\) are not compatible"):
        s.merge_with([2, 4])


def test_091_inference_with_unknown_sizes():
    x = tf.placeholder(tf.float32, [None, 3])
    shapes = [tf.matmul(x, tf.ones([3, 4])), x + tf.ones([5, 3]), tf.concat([x, x], 0), tf.reshape(x, [-1, 1]), tf.reshape(x, [tf.shape(x)[0], 3, 1]),
              tf.zeros(tf.shape(x)), x[0], x[:, 1:], tf.transpose(x), tf.stack([x, x]), tf.expand_dims(x, 0), tf.reduce_sum(x, 1), tf.one_hot([1, 2], 3)]
    assert [t.shape.as_list() for t in shapes] == [[None, 4], [5, 3], [None, 3], [None, 1], [None, 3, 1], [None, 3], [3], [None, 2], [3, None], [2, None, 3],
                                                   [1, None, 3], [None], [2, 3]]
    assert tf.reshape(tf.ones([2, 6]), [3, -1]).shape.as_list() == [3, 4]


def test_092_set_shape():
    x = tf.placeholder(tf.float32, [None, 3])
    x.set_shape([2, 3])
    assert x.shape.as_list() == [2, 3]
    with pytest.raises(ValueError):
        x.set_shape([4, 3])


def test_093_refusals_while_building():
    a = tf.ones([2, 3])
    with pytest.raises(ValueError, match=r"Dimensions must be equal, but are 3 and 2 for 'MatMul' \(op: 'MatMul'\) with input shapes: \[2,3\], \[2,3\]."):
        tf.matmul(a, a)
    with pytest.raises(ValueError, match=r"Dimensions must be equal, but are 3 and 4 for 'add' \(op: 'AddV2'\)"):
        a + tf.ones([2, 4])
    with pytest.raises(ValueError, match=r"Cannot reshape a tensor with 4 elements to shape \[3\] \(3 elements\) for 'Reshape'"):
        tf.reshape(tf.ones([4]), [3])
    with pytest.raises(ValueError, match=r"Can not squeeze dim\[0\], expected a dimension of 1, got 2"):
        tf.squeeze(a, [0])
    with pytest.raises(ValueError, match=r"slice index 5 of dimension 0 out of bounds."):
        a[5]


def test_094_refusals_at_run_time(sess):
    x, y = tf.placeholder(tf.float32, [2, None]), tf.placeholder(tf.float32, [2, None])
    total = tf.add(x, y, name="myadd")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Incompatible shapes: \[2,3\] vs. \[2,4\]"):
        sess.run(total, {x: np.ones((2, 3)), y: np.ones((2, 4))})
    i = tf.placeholder(tf.int32, [1])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[0\] = 7 is not in \[0, 3\)"):
        sess.run(tf.gather([1.0, 2.0, 3.0], i), {i: [7]})
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=i, logits=tf.ones([1, 3]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Received a label value of 9 which is outside the valid range of \[0, 3\)."):
        sess.run(loss, {i: [9]})


def test_095_fields_of_errors(sess):
    x = tf.placeholder(tf.float32, [], name="x")
    with pytest.raises(tf.errors.OpError) as caught:
        sess.run(x)
    assert caught.value.op.name == "x" and caught.value.error_code == 3 and "You must feed" in caught.value.message
    for name in ["Cancelled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists", "ResourceExhausted", "FailedPrecondition", "OutOfRange", "Internal", "DataLoss"]:
        assert issubclass(getattr(tf.errors, name + "Error"), tf.errors.OpError)


def test_096_slicing(sess):
    a = np.arange(24).reshape(2, 3, 4)
    t = tf.constant(a)
    one = tf.constant(1)
    for got, want in ((t[1], a[1]), (t[:, ::-1], a[:, ::-1]), (t[..., 1], a[..., 1]), (t[:, None], a[:, None]), (t[:, 1:100], a[:, 1:100]), (t[-1, -2:], a[-1, -2:]),
                      (t[one], a[1]), (t[:, tf.newaxis, 0], a[:, None, 0])):
        assert np.array_equal(sess.run(got), want)
    with pytest.raises(TypeError, match="Only integers, slices"):
        t["a"]
