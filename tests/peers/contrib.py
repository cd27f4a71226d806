#!/usr/bin/python3
"""com.microsoft's operators, and others whose forms are many, against ONNX Runtime: each model runs in both on the same
random inputs.

usage: contrib.py PARE DIRECTORY    PARE: the program; DIRECTORY: for models, inputs and outputs
"""
import json
import os
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper

F, I32, I64, U8 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8
TYPES = {np.dtype("float32"): F, np.dtype("int32"): I32, np.dtype("int64"): I64, np.dtype("uint8"): U8,
         np.dtype("int8"): TensorProto.INT8, np.dtype("bool"): TensorProto.BOOL}
rng = np.random.default_rng(5)


def real(*dims):
    return rng.standard_normal(dims).astype(np.float32)


def cases():
    """name, operator, domain, inputs (None: absent), number of outputs, attributes"""
    ms = "com.microsoft"
    x, skip, gamma, beta = real(2, 5, 8), real(2, 5, 8), real(8), real(8)
    yield "gelu", "Gelu", ms, [x], 1, {}
    yield "quick_gelu", "QuickGelu", ms, [x], 1, {"alpha": 1.5}
    yield "bias_gelu", "BiasGelu", ms, [x, gamma], 1, {}
    yield "fast_gelu", "FastGelu", ms, [x], 1, {}
    yield "fast_gelu_bias", "FastGelu", ms, [x, gamma], 1, {}
    yield "skip_layer_norm", "SkipLayerNormalization", ms, [x, skip, gamma, beta], 1, {"epsilon": 1e-5}
    yield "skip_layer_norm_bias", "SkipLayerNormalization", ms, [x, skip, gamma, beta, real(8)], 4, {"epsilon": 1e-5}
    yield "skip_rms", "SkipSimplifiedLayerNormalization", ms, [x, skip, gamma], 1, {"epsilon": 1e-5}
    yield "skip_rms_bias", "SkipSimplifiedLayerNormalization", ms, [x, skip, gamma, real(8)], 4, {"epsilon": 1e-5}
    yield "simplified", "SimplifiedLayerNormalization", "", [x, gamma], 1, {"axis": -1, "epsilon": 1e-5}
    yield "fused_matmul", "FusedMatMul", ms, [real(2, 3, 4), real(2, 5, 4)], 1, {"alpha": 0.5, "transB": 1}
    yield "fused_matmul_a", "FusedMatMul", ms, [real(2, 4, 3), real(2, 4, 5)], 1, {"transA": 1}
    yield "fused_conv", "FusedConv", ms, [real(1, 3, 6, 6), real(4, 3, 3, 3), real(4)], 1, {"activation": "Relu"}
    yield ("fused_conv_sum", "FusedConv", ms, [real(1, 3, 6, 6), real(4, 3, 3, 3), real(4), real(1, 4, 4, 4)], 1,
           {"activation": "Relu"})
    yield ("fused_conv_leaky", "FusedConv", ms, [real(1, 3, 6, 6), real(4, 3, 3, 3)], 1,
           {"activation": "LeakyRelu", "activation_params": [0.2], "pads": [1, 1, 1, 1]})
    q, k, v = real(2, 5, 8), real(2, 6, 8), real(2, 6, 8)
    yield "mha", "MultiHeadAttention", ms, [q, k, v], 1, {"num_heads": 2}
    yield "mha_bias", "MultiHeadAttention", ms, [q, k, v, real(24)], 1, {"num_heads": 2, "scale": 0.3}
    mask = np.array([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]], np.int32)
    yield "mha_mask", "MultiHeadAttention", ms, [q, k, v, None, mask], 1, {"num_heads": 2}
    yield "mha_scores", "MultiHeadAttention", ms, [q, k, v, None, None, real(1, 2, 5, 6)], 1, {"num_heads": 2}
    yield "mha_causal", "MultiHeadAttention", ms, [q, q, v[:, :5]], 1, {"num_heads": 2, "unidirectional": 1}
    past = [real(2, 2, 3, 4), real(2, 2, 3, 4)]
    yield "mha_past", "MultiHeadAttention", ms, [q, q, q, None, None, None, *past], 3, {"num_heads": 2}
    heads = {"num_heads": 4, "kv_num_heads": 2}
    q, k, v = real(2, 5, 64), real(2, 5, 32), real(2, 5, 32)
    first = [np.array([4, 4], np.int32), np.array([5], np.int32)]
    empty = [np.zeros((2, 2, 0, 16), np.float32)] * 2
    cos, sin = real(16, 8), real(16, 8)
    yield "gqa_first", "GroupQueryAttention", ms, [q, k, v, *empty, *first], 3, heads
    yield "gqa_window", "GroupQueryAttention", ms, [q, k, v, *empty, *first], 3, {**heads, "local_window_size": 2}
    yield "gqa_rotary", "GroupQueryAttention", ms, [q, k, v, *empty, *first, cos, sin], 3, {**heads, "do_rotary": 1}
    yield ("gqa_interleaved", "GroupQueryAttention", ms, [q, k, v, *empty, *first, cos, sin], 3,
           {**heads, "do_rotary": 1, "rotary_interleaved": 1})
    yield ("gqa_packed", "GroupQueryAttention", ms, [real(2, 5, 128), None, None, *empty, *first], 3, heads)
    past = [real(2, 2, 7, 16), real(2, 2, 7, 16)]
    later = [np.array([7, 7], np.int32), np.array([8], np.int32)]
    yield ("gqa_next", "GroupQueryAttention", ms, [q[:, :1], k[:, :1], v[:, :1], *past, *later, cos, sin], 3,
           {**heads, "do_rotary": 1, "softcap": 3.0})
    places = np.array([[0, 1, 2, 3, 4], [2, 3, 4, 5, 6]], np.int64)
    for interleaved in (0, 1):
        yield (f"rotary_{interleaved}", "RotaryEmbedding", ms, [real(2, 5, 16), places, real(8, 4), real(8, 4)], 1,
               {"interleaved": interleaved})
    yield "rotary_offset", "RotaryEmbedding", ms, [real(2, 2, 5, 16), np.array([1], np.int64), cos, sin], 1, {}
    for bits, block in ((4, 16), (4, 32), (8, 32)):
        blocks = -(-40 // block)
        packed = rng.integers(0, 256, (6, blocks, block * bits // 8)).astype(np.uint8)
        zero = rng.integers(0, 256, (6, -(-blocks * bits // 8))).astype(np.uint8)
        size = {"K": 40, "N": 6, "bits": bits, "block_size": block}
        scale = np.abs(real(6, blocks))
        yield f"n_bits_{bits}_{block}", "MatMulNBits", ms, [real(3, 40), packed, scale], 1, size
        yield f"n_bits_zero_{bits}_{block}", "MatMulNBits", ms, [real(3, 40), packed, scale, zero], 1, size
    for direction, d in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
        size = {"hidden_size": 3, "direction": direction}
        lengths = np.array([4, 2], np.int32)
        inputs = [real(4, 2, 5), real(d, 12, 5), real(d, 12, 3), real(d, 24), lengths, real(d, 2, 3), real(d, 2, 3), real(d, 9)]
        yield f"lstm_{direction}", "LSTM", "", inputs, 3, size
        gru = [real(4, 2, 5), real(d, 9, 5), real(d, 9, 3), real(d, 18), lengths, real(d, 2, 3)]
        yield f"gru_{direction}", "GRU", "", gru, 2, size
        yield f"gru_reset_{direction}", "GRU", "", gru, 2, {**size, "linear_before_reset": 1}
        yield f"rnn_{direction}", "RNN", "", [real(4, 2, 5), real(d, 3, 5), real(d, 3, 3), real(d, 6)], 2, size


def write_model(folder, op, domain, inputs, outputs, attributes):
    names = [f"x{i}" if value is not None else "" for i, value in enumerate(inputs)]
    node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], name="n", domain=domain, **attributes)
    infos = [helper.make_tensor_value_info(n, TYPES[v.dtype], list(v.shape)) for n, v in zip(names, inputs) if n]
    made = [helper.make_tensor_value_info(f"y{i}", F, None) for i in range(outputs)]
    if op == "SkipSimplifiedLayerNormalization" and outputs == 4:
        node.output[1] = node.output[2] = ""
        made = [made[0], made[3]]
    if op == "SkipLayerNormalization" and outputs == 4:
        node.output[1] = node.output[2] = ""
        made = [made[0], made[3]]
    graph = helper.make_graph([node], op, infos, made)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports)
    model.ir_version = 8
    os.makedirs(folder, exist_ok=True)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    files = []
    for name, value in zip(names, inputs):
        if name:
            files.append(os.path.join(folder, name + ".npy"))
            np.save(files[-1], value)
    return files, [info.name for info in made]


def main():
    pare, directory = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    here = os.path.dirname(os.path.abspath(__file__))
    jobs = []
    for name, *case in cases():
        folder = os.path.join(directory, name)
        files, made = write_model(folder, *case)
        jobs.append((name, folder, files, made))
    lines = "".join(json.dumps({"model": f + "/model.onnx", "inputs": files, "outdir": f + "/ort"}) + "\n"
                    for _, f, files, _ in jobs)
    peer = subprocess.run(["node", os.path.join(here, "ort_run.mjs"), "--batch"], input=lines, text=True,
                          capture_output=True, check=True, cwd=os.path.join(here, "../.."))
    wrong = refused = 0
    for (name, folder, files, made), answer in zip(jobs, peer.stdout.splitlines()):
        answer = json.loads(answer)
        if "error" in answer:
            print(f"{name}: ONNX Runtime does not take it: {answer['error'][:200]}")
            refused += 1
            continue
        inputs = [word for file in files for word in ("--input", os.path.basename(file)[:-4] + "=" + file)]
        ran = subprocess.run([pare, "run", folder + "/model.onnx", *inputs, "-o", folder + "/pare", "--force", "-q"],
                             text=True, capture_output=True, check=False)
        if ran.returncode != 0:
            print(f"{name}: {ran.stderr.strip()}")
            wrong += 1
            continue
        for output in made:
            a, b = (np.load(f"{folder}/{place}/{output}.npy") for place in ("ort", "pare"))
            same = a.shape == b.shape and np.allclose(a, b, rtol=1e-3, atol=1e-4)
            if not same:
                worst = np.abs(a - b).max() if a.shape == b.shape else "shapes"
                print(f"{name}: {output} differs: {a.shape} {b.shape} {worst}")
                wrong += 1
    print(f"{len(jobs)} models, {wrong} differ, {refused} not taken by ONNX Runtime")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
