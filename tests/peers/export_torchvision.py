#!/usr/bin/python3
"""Exports torchvision's architectures to ONNX with random weights, for the comparison with ONNX Runtime.

    export_torchvision.py DIRECTORY [NAME…] [--variants folded,kept]

writes, for each architecture and each variant (`folded`: BatchNormalization folded into the convolutions, as PyTorch's
exporter does by default; `kept`: BatchNormalization nodes stay), `NAME.VARIANT.onnx`, and once per architecture
`NAME.input.npy` (batch 2) and `NAME.output.npy` (PyTorch's own output). A variant that is already there is not made
again. Nothing is downloaded: the weights are drawn from a fixed seed, and the batch norms get statistics and scales
that are far from the identity, so that a mistake in either shows; an output that hardly depends on the input is refused.
"""
import argparse
import gc
import os
import sys
import warnings
import zlib

import numpy as np
import torch
import torchvision

warnings.filterwarnings("ignore")

# name: (input size, opset, constructor's arguments)
ARCHITECTURES = {
    "alexnet": (224, 13, {}),
    "vgg11_bn": (224, 13, {}),
    "resnet18": (224, 13, {}),
    "resnet50": (224, 13, {}),
    "resnext50_32x4d": (224, 13, {}),
    "densenet121": (224, 13, {}),
    "mobilenet_v2": (224, 13, {}),
    "mobilenet_v3_small": (224, 14, {}),  # HardSwish is an operator from 14 on
    "shufflenet_v2_x1_0": (224, 13, {}),
    "squeezenet1_1": (224, 13, {}),
    "googlenet": (224, 13, {"aux_logits": False, "transform_input": False, "init_weights": False}),
    "inception_v3": (299, 13, {"aux_logits": False, "transform_input": False, "init_weights": False}),
    "mnasnet0_5": (224, 13, {}),
    "efficientnet_b0": (224, 13, {}),
    "regnet_y_400mf": (224, 13, {}),
    "convnext_tiny": (224, 13, {}),
    "vit_b_16": (224, 14, {}),
    "swin_t": (224, 14, {}),
}


def example_input(size: int) -> torch.Tensor:
    """Two images with coarse structure: of pure noise, a deep network with random weights sees only the average."""
    generator = torch.Generator().manual_seed(2)
    coarse = torch.randn(2, 3, 6, 6, generator=generator)
    fine = torch.randn(2, 3, size, size, generator=generator)
    return torch.nn.functional.interpolate(coarse, size=size, mode="bilinear") + 0.5 * fine


def randomize_batch_norms(model: torch.nn.Module, example: torch.Tensor) -> None:
    """gamma U(0.5, 1.5), beta N(0, 0.1), and running statistics as far off what really arrives: mean + deviation·N(0, 0.1),
    variance·U(0.5, 1.5). Statistics around 0 and 1 instead would let the signal die out in the first layers of a deep
    network with random weights, and its output would be the same for every input."""
    generator = torch.Generator().manual_seed(1)

    def uniform(like):
        return torch.rand(like.shape, generator=generator) + 0.5

    def normal(like):
        return torch.randn(like.shape, generator=generator) * 0.1

    def randomize(module, inputs):
        x = inputs[0].transpose(0, 1).flatten(1)
        deviation, mean = torch.std_mean(x, dim=1)
        module.weight.copy_(uniform(module.weight))
        module.bias.copy_(normal(module.bias))
        module.running_mean.copy_(mean + deviation * normal(mean))
        module.running_var.copy_((deviation**2 + 1e-3) * uniform(deviation))

    hooks = [module.register_forward_pre_hook(randomize) for module in model.modules()
             if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)]
    model(example)
    for hook in hooks:
        hook.remove()


def build(name: str, example: torch.Tensor) -> torch.nn.Module:
    _, _, arguments = ARCHITECTURES[name]
    torch.manual_seed(zlib.crc32(name.encode()))
    model = getattr(torchvision.models, name)(weights=None, **arguments).eval()
    with torch.no_grad():
        randomize_batch_norms(model, example)
        if name == "vit_b_16":  # starts at zero
            torch.nn.init.normal_(model.heads.head.weight, std=0.02)
    return model


def export(model: torch.nn.Module, example: torch.Tensor, path: str, opset: int, keep_batch_norm: bool) -> None:
    mode = torch.onnx.TrainingMode.PRESERVE if keep_batch_norm else torch.onnx.TrainingMode.EVAL
    torch.onnx.export(
        model, example, path + ".part", opset_version=opset, training=mode, do_constant_folding=not keep_batch_norm,
        input_names=["input"], output_names=["output"], dynamic_axes={"input": {0: "N"}, "output": {0: "N"}})
    os.replace(path + ".part", path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory")
    parser.add_argument("names", nargs="*", help="all of them by default")
    parser.add_argument("--variants", default="folded,kept")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(ARCHITECTURES))
    if unknown:
        parser.error("unknown architecture: " + ", ".join(unknown) + "; there are " + ", ".join(ARCHITECTURES))
    os.makedirs(options.directory, exist_ok=True)

    failures = 0
    for name in options.names or ARCHITECTURES:
        base = os.path.join(options.directory, name)
        variants = {v: f"{base}.{v}.onnx" for v in options.variants.split(",")}
        arrays = [f"{base}.input.npy", f"{base}.output.npy"]
        if all(map(os.path.exists, [*variants.values(), *arrays])):
            print(f"{name}: already there", flush=True)
            continue
        size, opset, _ = ARCHITECTURES[name]
        try:
            example = example_input(size)
            model = build(name, example)
            with torch.no_grad():
                output = model(example)
            spread = ((output[0] - output[1]).abs().max() / output.abs().max()).item()
            if not spread > 1e-2:  # else the comparison would compare biases
                raise RuntimeError(f"the output hardly depends on the input ({spread:.1e})")
            for variant, path in variants.items():
                if not os.path.exists(path):
                    export(model, example, path, opset, variant == "kept")
            for path, tensor in zip(arrays, (example, output)):
                np.save(path, tensor.numpy())
            print(f"{name}: " + ", ".join(f"{v} {os.path.getsize(p) / 1e6:.1f} MB" for v, p in variants.items()), flush=True)
        except Exception as error:  # one architecture must not hide the others
            failures += 1
            print(f"{name}: FAILED: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        model = output = None
        gc.collect()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
