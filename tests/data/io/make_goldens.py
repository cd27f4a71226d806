#!/usr/bin/python3
"""Writes the golden checkpoints of this folder with PyTorch (made with 1.13 and numpy 1.24).

    /usr/bin/python3 tests/data/io/make_goldens.py tests/data/io

The expected values are spelled out in tests/io/checkpoint_test.cpp.
"""
import argparse
import collections
import sys
from pathlib import Path

import numpy as np
import torch

out = Path(sys.argv[1] if len(sys.argv) > 1 else ".")


def save(name, value, **options):
    torch.save(value, out / (name + "_legacy.pth"), _use_new_zipfile_serialization=False, **options)
    torch.save(value, out / (name + "_zip.pth"), **options)


base = torch.arange(12, dtype=torch.float32)
save("dtypes", {
    "f64": torch.tensor([1.5, -2.5], dtype=torch.float64),
    "f32": base.reshape(3, 4).clone(),
    "f16": torch.tensor([0.5, 1.25], dtype=torch.float16),
    "bf16": torch.tensor([0.5, -3.0], dtype=torch.bfloat16),
    "i64": torch.tensor([-1, 1 << 40]),
    "i32": torch.tensor([7, -8], dtype=torch.int32),
    "i16": torch.tensor([300, -300], dtype=torch.int16),
    "i8": torch.tensor([1, -128], dtype=torch.int8),
    "u8": torch.tensor([0, 255], dtype=torch.uint8),
    "bool": torch.tensor([True, False, True]),
    "scalar": torch.tensor(42),
    "empty": torch.zeros(0, 3),
})

parameters = collections.OrderedDict()
parameters["module.transposed"] = base.reshape(3, 4).t()
parameters["module.part"] = base[4:10:2]
parameters["module.tied"] = base
parameters["module.expanded"] = torch.tensor([3.0]).expand(2, 2)
parameters["module.parameter"] = torch.nn.Parameter(torch.tensor([9.0]))
parameters._metadata = {"": {"version": 1}}
save("nested", {
    "epoch": 12,
    "best_prec1": np.float64(91.5),
    "arch": "resnet20",
    "ema": True,
    "accuracy": np.float32(0.25),
    "args": argparse.Namespace(lr=0.1),
    "optimizer": {"state": {0: {"momentum": torch.ones(2)}}, "param_groups": [{"lr": 0.1}]},
    "shape": torch.Size([2, 3]),
    "dtype": torch.float32,
    "device": torch.device("cuda", 0),
    "milestones": collections.Counter([10, 20]),
    "state_dict": parameters,
})

torch.save({"weight": torch.tensor([1.0, 2.0])}, out / "protocol4_legacy.pth", pickle_protocol=4,
           _use_new_zipfile_serialization=False)
torch.save({"weight": torch.tensor([1.0, 2.0])}, out / "protocol4_zip.pth", pickle_protocol=4)
torch.save({"w": torch.tensor([1.0, 2.0])}, out / "tiny_legacy.pth", _use_new_zipfile_serialization=False)
torch.save({"w": torch.tensor([1.0, 2.0])}, out / "tiny_zip.pth")
torch.save({"sparse": torch.eye(2).to_sparse()}, out / "sparse_zip.pth")
torch.save({"q": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)}, out / "quantized_zip.pth")
torch.save(torch.nn.Linear(1, 1), out / "module_zip.pth")
torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), str(out / "script_zip.pt"))

np.save(out / "c_order.npy", np.arange(6, dtype="<f4").reshape(2, 3))
np.save(out / "fortran_order.npy", np.asfortranarray(np.arange(6, dtype="<i8").reshape(2, 3)))
np.save(out / "big_endian.npy", np.arange(3, dtype=">f4"))
