#!/usr/bin/python3
"""The zoo's architectures in PyTorch, with the same names: the oracle of src/pare/zoo.

  reference.py ARCH DIR [options]   loads DIR/<parameter>.npy strictly, runs DIR/input.npy in its type and
                                    writes DIR/logits.npy
  reference.py ARCH --count         prints the number of parameters (statistics of batch norms are not parameters)
  reference.py ARCH DIR --init SEED writes DIR/<parameter>.npy as torch.manual_seed(SEED) gives them, and an input.npy
"""
import argparse
import os

import numpy
import torch
from torch import nn
from torch.nn import functional as F

ACTIVATIONS = {
    "relu": nn.ReLU, "tanh": nn.Tanh, "softsign": nn.Softsign, "elu": nn.ELU, "selu": nn.SELU,
    "leaky-relu": nn.LeakyReLU, "hardswish": nn.Hardswish, "gelu": nn.GELU, "relu6": nn.ReLU6,
}
OWN_ACTIVATIONS = {"vit-tiny": "gelu", "bert-tiny": "gelu", "mobilenetv2": "relu6"}
VGG = {
    "9": [16, 16, 0, 32, 32, 0, 48, 48, 64, 64, 0],
    "11": [64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0],
    "16": [64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0],
}
MOBILE = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)] + [(512, 1)] * 5 + [(1024, 2), (1024, 1)]


def scaled(o, channels):
    return max(1, int(numpy.floor(o.width * channels + 0.5)))


def conv3(inputs, outputs, stride=1):
    return nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)


class Perceptron(nn.Module):
    def __init__(self, o, prefix, hidden, bias, features):
        super().__init__()
        self.act, self.names = ACTIVATIONS[o.activation](), []
        for i, width in enumerate([*(scaled(o, h) for h in hidden), o.classes], 1):
            self.names.append(f"{prefix}{i}")
            setattr(self, self.names[-1], nn.Linear(features, width, bias))
            features = width

    def forward(self, x):
        x = x.flatten(1)
        for name in self.names[:-1]:
            x = self.act(getattr(self, name)(x))
        return getattr(self, self.names[-1])(x)


class SmallConvnet(Perceptron):
    def __init__(self, o, filters, padding, prefix, hidden, batch_norm):
        bias, (channels, height, width) = o.bias is not False, o.input
        shrink = (lambda n: n // 2) if padding else (lambda n: (n - 4) // 2)
        nn.Module.__init__(self)
        convolutions = {}
        for i, out in enumerate(filters, 1):
            convolutions[f"conv{i}"] = nn.Conv2d(channels, scaled(o, out), 5, padding=padding, bias=bias)
            if batch_norm:
                convolutions[f"bn{i}"] = nn.BatchNorm2d(scaled(o, out))
            channels, height, width = scaled(o, out), shrink(height), shrink(width)
        super().__init__(o, prefix, hidden, bias, channels * height * width)
        for name, module in convolutions.items():
            setattr(self, name, module)
        self.batch_norm, self.count = batch_norm, len(filters)

    def forward(self, x):
        for i in range(1, self.count + 1):
            x = getattr(self, f"conv{i}")(x)
            x = getattr(self, f"bn{i}")(x) if self.batch_norm else x
            x = F.max_pool2d(self.act(x), 2)
        return super().forward(x)


class Vgg(nn.Module):
    def __init__(self, o, filters, batch_norm):
        super().__init__()
        bias, (channels, height, width), layers = o.bias is not False, o.input, []
        for out in filters:
            if out == 0:
                layers.append(nn.MaxPool2d(2))
                height, width = height // 2, width // 2
                continue
            layers.append(nn.Conv2d(channels, scaled(o, out), 3, padding=1, bias=bias))
            channels = scaled(o, out)
            layers += [nn.BatchNorm2d(channels)] if batch_norm else []
            layers.append(ACTIVATIONS[o.activation]())
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels * height * width, o.classes, bias)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class Block(nn.Module):
    def __init__(self, o, inputs, outputs, stride, project):
        super().__init__()
        self.conv1, self.bn1 = conv3(inputs, outputs, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = conv3(outputs, outputs), nn.BatchNorm2d(outputs)
        self.act, self.stride, self.more = ACTIVATIONS[o.activation](), stride, outputs - inputs
        self.downsample = None
        if project and (stride != 1 or self.more):
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(self.act(self.bn1(self.conv1(x)))))
        if self.downsample is not None:
            x = self.downsample(x)
        elif self.stride != 1 or self.more:
            half = self.more // 2
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, half, self.more - half))
        return self.act(y + x)


class Resnet(nn.Module):
    def __init__(self, o, blocks, widths, head, project, large):
        super().__init__()
        channels = scaled(o, widths[0])
        self.conv1 = nn.Conv2d(o.input[0], channels, 7, 2, 3, bias=False) if large else conv3(o.input[0], channels)
        self.bn1, self.act, self.head, self.stages = nn.BatchNorm2d(channels), ACTIVATIONS[o.activation](), head, []
        self.pool = nn.MaxPool2d(3, 2, 1) if large else nn.Identity()
        for stage, (count, width) in enumerate(zip(blocks, widths), 1):
            layers = []
            for i in range(count):
                stride = 2 if stage > 1 and i == 0 else 1
                layers.append(Block(o, channels, scaled(o, width), stride, project))
                channels = scaled(o, width)
            self.stages.append(f"layer{stage}")
            setattr(self, f"layer{stage}", nn.Sequential(*layers))
        setattr(self, head, nn.Linear(channels, o.classes, o.bias is not False))

    def forward(self, x):
        x = self.pool(self.act(self.bn1(self.conv1(x))))
        for stage in self.stages:
            x = getattr(self, stage)(x)
        return getattr(self, self.head)(x.mean((2, 3)))


class WideBlock(nn.Module):
    def __init__(self, o, inputs, outputs, stride):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(inputs), conv3(inputs, outputs, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(outputs), conv3(outputs, outputs)
        self.act, same = ACTIVATIONS[o.activation](), inputs == outputs and stride == 1
        self.convShortcut = None if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        entry = self.act(self.bn1(x))
        y = self.conv2(self.act(self.bn2(self.conv1(entry))))
        return y + (x if self.convShortcut is None else self.convShortcut(entry))


class WideResnet(nn.Module):
    def __init__(self, o, depth, factor):
        super().__init__()
        channels = scaled(o, 16)
        self.conv1 = conv3(o.input[0], channels)
        for stage in (1, 2, 3):
            layers, width = [], scaled(o, (8 << stage) * factor)
            for i in range((depth - 4) // 6):
                layers.append(WideBlock(o, channels, width, 2 if stage > 1 and i == 0 else 1))
                channels = width
            setattr(self, f"block{stage}", nn.Module())
            getattr(self, f"block{stage}").layer = nn.Sequential(*layers)
        self.bn1, self.act = nn.BatchNorm2d(channels), ACTIVATIONS[o.activation]()
        self.fc = nn.Linear(channels, o.classes, o.bias is not False)

    def forward(self, x):
        x = self.conv1(x)
        for block in (self.block1, self.block2, self.block3):
            x = block.layer(x)
        return self.fc(self.act(self.bn1(x)).mean((2, 3)))


class MobileNet(nn.Module):
    def __init__(self, o, large):
        super().__init__()
        act, channels = ACTIVATIONS[o.activation], scaled(o, 32)
        stem = nn.Conv2d(o.input[0], channels, 3, 2 if large else 1, 1, bias=False)
        layers = [nn.Sequential(stem, nn.BatchNorm2d(channels), act())]
        for width, stride in MOBILE:
            out = scaled(o, width)
            layers.append(nn.Sequential(
                nn.Conv2d(channels, channels, 3, stride, 1, groups=channels, bias=False),
                nn.BatchNorm2d(channels), act(),
                nn.Conv2d(channels, out, 1, bias=False), nn.BatchNorm2d(out), act()))
            channels = out
        self.model = nn.Sequential(*layers)
        self.fc = nn.Linear(channels, o.classes, o.bias is not False)

    def forward(self, x):
        return self.fc(self.model(x).mean((2, 3)))


class MobileNetV2(nn.Module):
    def __init__(self, o, large):
        super().__init__()
        act = ACTIVATIONS[o.activation]

        def unit(inputs, outputs, kernel, stride=1, groups=1):
            conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
            return nn.Sequential(conv, nn.BatchNorm2d(outputs), act())

        channels = scaled(o, 32)
        layers = [unit(o.input[0], channels, 3, 2 if large else 1)]
        self.shortcuts = set()
        stages = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                  (6, 320, 1, 1)]
        for widen, width, count, stride in stages:
            for i in range(count):
                step = stride if i == 0 and (large or width != 24) else 1
                out, hidden = scaled(o, width), widen * channels
                parts = [] if widen == 1 else [unit(channels, hidden, 1)]
                parts += [unit(hidden, hidden, 3, step, hidden), nn.Conv2d(hidden, out, 1, bias=False),
                          nn.BatchNorm2d(out)]
                if step == 1 and channels == out:
                    self.shortcuts.add(len(layers))
                block = nn.Module()
                block.conv = nn.Sequential(*parts)
                layers.append(block)
                channels = out
        layers.append(unit(channels, scaled(o, 1280), 1))
        self.features = nn.ModuleList(layers)
        self.classifier = nn.Sequential(nn.Identity(), nn.Linear(scaled(o, 1280), o.classes, o.bias is not False))

    def forward(self, x):
        for i, layer in enumerate(self.features):
            y = layer.conv(x) if hasattr(layer, "conv") else layer(x)
            x = x + y if i in self.shortcuts else y
        return self.classifier(x.mean((2, 3)))


class Fire(nn.Module):
    def __init__(self, o, inputs, squeeze, expand):
        super().__init__()
        bias, self.act = o.bias is not False, ACTIVATIONS[o.activation]()
        squeeze, expand = scaled(o, squeeze), scaled(o, expand)
        self.squeeze = nn.Conv2d(inputs, squeeze, 1, bias=bias)
        self.expand1x1 = nn.Conv2d(squeeze, expand, 1, bias=bias)
        self.expand3x3 = nn.Conv2d(squeeze, expand, 3, padding=1, bias=bias)

    def forward(self, x):
        x = self.act(self.squeeze(x))
        return torch.cat([self.act(self.expand1x1(x)), self.act(self.expand3x3(x))], 1)


class SqueezeNet(nn.Module):
    def __init__(self, o, large):
        super().__init__()
        act, bias, channels = ACTIVATIONS[o.activation], o.bias is not False, scaled(o, 64)
        pool = lambda: nn.MaxPool2d(3, 2, ceil_mode=True)
        layers = [nn.Conv2d(o.input[0], channels, 3, 2 if large else 1, 0 if large else 1, bias=bias), act(),
                  pool() if large else nn.Identity()]
        for fire in [(16, 64), (16, 64), None, (32, 128), (32, 128), None, (48, 192), (48, 192), (64, 256), (64, 256)]:
            layers.append(pool() if fire is None else Fire(o, channels, *fire))
            channels = channels if fire is None else 2 * scaled(o, fire[1])
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Identity(), nn.Conv2d(channels, o.classes, 1, bias=bias), act())

    def forward(self, x):
        return self.classifier(self.features(x)).mean((2, 3))


class VitBlock(nn.Module):
    def __init__(self, o, width, heads, ratio):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, 1e-6), nn.LayerNorm(width, 1e-6)
        self.attn, self.mlp, self.heads = nn.Module(), nn.Module(), heads
        self.attn.qkv, self.attn.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp.fc1, self.mlp.fc2 = nn.Linear(width, ratio * width), nn.Linear(ratio * width, width)
        self.act = ACTIVATIONS[o.activation]()

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = self.attn.qkv(self.norm1(x)).reshape(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = ((q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5).softmax(-1) @ v
        x = x + self.attn.proj(y.transpose(1, 2).reshape(n, t, d))
        return x + self.mlp.fc2(self.act(self.mlp.fc1(self.norm2(x))))


class Vit(nn.Module):
    def __init__(self, o, large):
        super().__init__()
        patch, depth, heads, size, ratio = (16, 12, 3, 64, 4) if large else (4, 6, 4, 32, 2)
        width = heads * scaled(o, size)
        places = (o.input[1] // patch) * (o.input[2] // patch) + 1
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, places, width))
        self.patch_embed = nn.Module()
        self.patch_embed.proj = nn.Conv2d(o.input[0], width, patch, patch)
        self.blocks = nn.Sequential(*(VitBlock(o, width, heads, ratio) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width, 1e-6), nn.Linear(width, o.classes, o.bias is not False)

    def forward(self, x):
        x = self.patch_embed.proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


class Bert(nn.Module):
    """Parameters as Hugging Face's BertForSequenceClassification has them, but for the prefix `bert.`."""

    def __init__(self, o):
        super().__init__()
        width, norm = 2 * scaled(o, 64), lambda: nn.LayerNorm(2 * scaled(o, 64), 1e-12)
        module = lambda **parts: nn.ModuleDict(parts)
        self.embeddings = module(word_embeddings=nn.Embedding(30522, width), LayerNorm=norm(),
                                 token_type_embeddings=nn.Embedding(2, width),
                                 position_embeddings=nn.Embedding(512, width))
        linear = lambda a=1, b=1: nn.Linear(a * width, b * width)
        layer = lambda: module(
            attention=module(self=module(query=linear(), key=linear(), value=linear()),
                             output=module(dense=linear(), LayerNorm=norm())),
            intermediate=module(dense=linear(1, 4)), output=module(dense=linear(4, 1), LayerNorm=norm()))
        self.encoder = module(layer=nn.ModuleList([layer(), layer()]))
        self.pooler = module(dense=linear())
        self.classifier, self.act = nn.Linear(width, o.classes, o.bias is not False), ACTIVATIONS[o.activation]()

    def forward(self, ids):
        e, length = self.embeddings, ids.shape[1]
        x = e["word_embeddings"](ids) + e["token_type_embeddings"].weight[0]
        x = e["LayerNorm"](x + e["position_embeddings"].weight[:length])
        for layer in self.encoder["layer"]:
            own, out = layer["attention"]["self"], layer["attention"]["output"]
            q, k, v = (own[part](x).reshape(*x.shape[:2], 2, -1).transpose(1, 2) for part in ("query", "key", "value"))
            y = ((q @ k.transpose(-2, -1)) / q.shape[-1] ** 0.5).softmax(-1) @ v
            x = out["LayerNorm"](x + out["dense"](y.transpose(1, 2).reshape(x.shape)))
            y = layer["output"]["dense"](self.act(layer["intermediate"]["dense"](x)))
            x = layer["output"]["LayerNorm"](x + y)
        return self.classifier(torch.tanh(self.pooler["dense"](x[:, 0])))


def build(arch, o):
    o.activation = o.activation or OWN_ACTIVATIONS.get(arch, "relu")
    if arch == "bert-tiny":
        o.input = o.input or [128]
        return Bert(o)
    gray = arch in ("lenet-300-100", "lenet-5", "mlpnet", "convnet", "convnet-bn")
    o.input = o.input or ([1, 28, 28] if gray else [3, 56, 56] if arch.startswith("vgg9") else [3, 32, 32])
    large, features = o.input[1] > 64, int(numpy.prod(o.input))
    if arch == "lenet-300-100":
        return Perceptron(o, "ip", [300, 100], o.bias is not False, features)
    if arch == "mlpnet":
        return Perceptron(o, "fc", [400, 200, 100], o.bias is True, features)
    if arch == "lenet-5":
        return SmallConvnet(o, [20, 50], 0, "ip", [500], False)
    if arch.startswith("convnet"):
        return SmallConvnet(o, [16, 32], 2, "fc", [128], arch.endswith("-bn"))
    if arch.startswith("vgg"):
        return Vgg(o, VGG[arch[3:].replace("-bn", "")], arch.endswith("-bn"))
    if arch in ("resnet18", "resnet34"):
        blocks = [2, 2, 2, 2] if arch == "resnet18" else [3, 4, 6, 3]
        return Resnet(o, blocks, [64, 128, 256, 512], "fc", o.shortcut != "a", large)
    if arch.startswith("resnet"):
        return Resnet(o, [(int(arch[6:]) - 2) // 6] * 3, [16, 32, 64], "linear", o.shortcut == "b", False)
    if arch.startswith("wrn-"):
        return WideResnet(o, *map(int, arch.split("-")[1:]))
    if arch == "mobilenetv1":
        return MobileNet(o, large)
    if arch == "mobilenetv2":
        return MobileNetV2(o, large)
    if arch == "squeezenet1_1":
        return SqueezeNet(o, large)
    if arch == "vit-tiny":
        return Vit(o, large)
    raise SystemExit(f"reference.py: no architecture {arch}")


def state_of(model):
    return {k: v for k, v in model.state_dict().items() if not k.endswith("num_batches_tracked")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("arch")
    parser.add_argument("directory", nargs="?")
    parser.add_argument("--activation", choices=ACTIVATIONS)
    parser.add_argument("--width", type=float, default=1.0)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--input", type=int, nargs="+", metavar="N", help="channels, height, width, or tokens")
    parser.add_argument("--shortcut", choices=["a", "b"])
    parser.add_argument("--bias", type=lambda text: text == "true", metavar="true|false")
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--init", type=int, metavar="SEED")
    o = parser.parse_args()
    torch.manual_seed(o.init or 0)
    model = build(o.arch, o).eval()
    state = state_of(model)
    if o.count:
        print(sum(p.numel() for p in model.parameters()))
        return
    if o.init is not None:
        os.makedirs(o.directory, exist_ok=True)
        for name, value in {**state, "input": torch.randint(30522, (4, *o.input)) if o.arch == "bert-tiny" else torch.randn(4, *o.input)}.items():
            numpy.save(os.path.join(o.directory, name + ".npy"), value.numpy())
        return
    given = {f[:-4] for f in os.listdir(o.directory) if f.endswith(".npy")} - {"input", "logits"}
    if given != set(state):
        raise SystemExit(f"missing {sorted(set(state) - given)}, unexpected {sorted(given - set(state))}")
    load = lambda name: torch.from_numpy(numpy.load(os.path.join(o.directory, name + ".npy")))
    x = load("input")
    # Strict but for the counters: the names were compared above.
    model.to(load(next(iter(state))).dtype).load_state_dict({name: load(name) for name in state}, strict=False)
    with torch.no_grad():
        numpy.save(os.path.join(o.directory, "logits.npy"), model(x).numpy())


if __name__ == "__main__":
    main()
