"""A network whose channels are not removed but set to zero: the same channels that another file lacks.
    mask_channels.py FULL.onnx REMOVED.onnx OUT.onnx
REMOVED is FULL without some channels, every weight that is left being as it was (pare prune --compensate none). Kernels are
found again by their bytes, which says which filters of a convolution were kept. The others become zero in OUT, with their
biases and with scale and bias of a batch norm after them: what they make is zero, through ReLU and sums as well, and what
reads them adds nothing. Needs python3-onnx.
"""
import sys
from collections import Counter, defaultdict

import numpy as np
import onnx
from onnx import numpy_helper

full, removed = onnx.load(sys.argv[1]), onnx.load(sys.argv[2])
tensors = {tensor.name: tensor for tensor in full.graph.initializer}
left = {tensor.name: tensor for tensor in removed.graph.initializer}
readers = Counter(name for node in full.graph.node for name in node.input)
batch_norms = {node.input[0]: node for node in full.graph.node if node.op_type == "BatchNormalization"}


def convolutions(model):
    return [node for node in model.graph.node if node.op_type == "Conv"]


def kept_filters(name, weight, smaller):
    filters = defaultdict(set)  # in which filters a kernel occurs
    for row, channel in np.ndindex(weight.shape[:2]):
        filters[weight[row, channel].tobytes()].add(row)
    kept = []
    for kernels in smaller:
        rows = set.intersection(*(filters[kernel.tobytes()] for kernel in kernels))
        if len(rows) != 1:
            sys.exit(f"{name}: a filter of {sys.argv[2]} is {len(rows)} of those of {sys.argv[1]}, not one")
        kept.append(rows.pop())
    return kept


def set_to_zero(name, rows):
    if readers[name] != 1:
        sys.exit(f"{name}: read by {readers[name]} nodes, expected one")
    values = numpy_helper.to_array(tensors[name]).copy()
    values[rows] = 0
    tensors[name].CopyFrom(numpy_helper.from_array(values, name))


pairs = list(zip(convolutions(full), convolutions(removed)))
if len(pairs) != len(convolutions(full)) or len(pairs) != len(convolutions(removed)):
    sys.exit(f"{len(convolutions(full))} and {len(convolutions(removed))} convolutions, expected as many")
masked = total = 0
for node, cut in pairs:
    weight = numpy_helper.to_array(tensors[node.input[1]])
    kept = kept_filters(node.name, weight, numpy_helper.to_array(left[cut.input[1]]))
    gone = np.setdiff1d(np.arange(len(weight)), kept)
    batch_norm = batch_norms.get(node.output[0])
    for name in list(node.input[1:]) + (list(batch_norm.input[1:3]) if batch_norm else []):
        set_to_zero(name, gone)
    masked, total = masked + len(gone), total + len(weight)
if masked == 0:
    sys.exit(f"{sys.argv[2]} lacks no filter of {sys.argv[1]}")
onnx.save(full, sys.argv[3])
print(f"{masked} of {total} filters set to zero")
