"""A chain of linear layers with its weights in external data, written layer by layer.
    large_model.py FILE.onnx LAYERS WIDTH     4 * LAYERS * WIDTH**2 bytes of weights, float32
"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper

path, layers, width = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
data = path.rsplit("/", 1)[-1] + ".data"
random = np.random.default_rng(0)
nodes, tensors, offset = [], [], 0


def external(name, dims, size):
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", data), ("offset", offset), ("length", size)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


with open(path + ".data", "wb") as out:
    for i in range(layers):
        weight = random.standard_normal((width, width), dtype=np.float32) / np.float32(width**0.5)
        weight.tofile(out)
        tensors.append(external(f"layer{i}.weight", [width, width], weight.nbytes))
        offset += weight.nbytes
        nodes.append(helper.make_node("Gemm", [f"x{i}", f"layer{i}.weight"], [f"y{i}"], f"layer{i}", transB=1))
        nodes.append(helper.make_node("Relu", [f"y{i}"], [f"x{i + 1}"], f"relu{i}"))
nodes.pop()
graph = helper.make_graph(nodes, "large", [helper.make_tensor_value_info("x0", TensorProto.FLOAT, ["N", width])],
                          [helper.make_tensor_value_info(f"y{layers - 1}", TensorProto.FLOAT, ["N", width])], tensors)
with open(path, "wb") as out:
    out.write(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7).SerializeToString())
