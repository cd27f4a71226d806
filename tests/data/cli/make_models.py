#!/usr/bin/python3
"""Makes the small models of the command line's tests, beside this file. Run it again after a change; the files are committed."""
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

here = os.path.dirname(os.path.abspath(__file__))


def save(name, nodes, tensors, opset=13, domains=(), x=("N", 4), outputs=(("y", ("N", 3)),)):
    graph = helper.make_graph(
        nodes, name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info(key, TensorProto.FLOAT, shape) for key, shape in outputs],
        [numpy_helper.from_array(value if value.dtype == np.int64 else value.astype(np.float32), key) for key, value in tensors.items()])
    opsets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(domain, 1) for domain in domains]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=7, producer_name="pare tests")
    onnx.save(model, os.path.join(here, name + ".onnx"))


random = np.random.default_rng(0)
w1, b1 = random.standard_normal((5, 4)), random.standard_normal(5)
w2, b2 = random.standard_normal((3, 5)), random.standard_normal(3)
layers = [
    helper.make_node("Gemm", ["x", "fc1.weight", "fc1.bias"], ["h"], "fc1", transB=1),
    helper.make_node("Relu", ["h"], ["r"], "relu"),
    helper.make_node("Gemm", ["r", "fc2.weight", "fc2.bias"], ["y"], "fc2", transB=1),
]
tensors = {"fc1.weight": w1, "fc1.bias": b1, "fc2.weight": w2, "fc2.bias": b2}
order = random.permutation(5)

save("mlp", layers, tensors)
# The same function: the hidden units in another order.
save("mlp_permuted", layers, {"fc1.weight": w1[order], "fc1.bias": b1[order], "fc2.weight": w2[:, order], "fc2.bias": b2})
# Another function.
save("mlp_changed", layers, {**tensors, "fc2.bias": b2 + 0.1})
# An operator nobody knows.
save("unknown_operator", [layers[0], helper.make_node("Frobnicate", ["h"], ["r"], "mystery", domain="org.example"), layers[2]],
     tensors, domains=["org.example"])

picture = ("N", 3, 16, 16)
# A class for each pixel: its strongest colour.
save("segmenter",
     [helper.make_node("Conv", ["x", "w1"], ["a"]), helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Conv", ["b", "w2"], ["scores"])],
     {"w1": np.eye(3).repeat(4, 0).reshape(12, 3, 1, 1), "w2": np.eye(3).repeat(4, 1).reshape(3, 12, 1, 1)},
     x=picture, outputs=[("scores", picture)])
# The same two boxes in every picture, as fractions, and their scores: background and one class.
save("detector",
     [helper.make_node("GlobalAveragePool", ["x"], ["p"]), helper.make_node("Conv", ["p", "w"], ["q"]),
      helper.make_node("Reshape", ["q", "shape"], ["r"]), helper.make_node("Add", ["r", "constant_boxes"], ["boxes"]),
      helper.make_node("Slice", ["r", "zero", "two", "two"], ["t"]), helper.make_node("Add", ["t", "constant_scores"], ["scores"])],
     {"w": np.zeros((8, 3, 1, 1)), "shape": np.array([-1, 2, 4]), "zero": np.array([0]), "two": np.array([2]),
      "constant_boxes": np.array([[[.25, .25, .75, .75], [0, 0, .1, .1]]]), "constant_scores": np.array([[[.1, .9], [.95, .05]]])},
     x=picture, outputs=[("scores", ("N", 2, 2)), ("boxes", ("N", 2, 4))])
