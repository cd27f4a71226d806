#!/usr/bin/python3
"""PyTorch eager's side of eval_throughput.sh: evaluates a checkpoint, prints {"seconds", "images_per_second", "top1"}.

    eval_peer.py resnet20|lenet-300-100 CHECKPOINT DATA_DIRECTORY --batch N --threads N

The images are bytes in memory, normalised batch by batch as pare does it, or, with --images ready, tensors before the
clock starts. The model is in eval mode, under torch.no_grad(). One process serves many measurements: it answers each
line on stdin, after one warm-up, so that starting Python and reading the data are not measured either.
"""
import argparse
import json
import sys
import time

import torch

from peer_models import LeNet, ResNet20, cifar10, fashion_mnist


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("arch", choices=["resnet20", "lenet-300-100"])
    parser.add_argument("checkpoint")
    parser.add_argument("data")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--limit", type=int, default=10000)
    parser.add_argument("--images", choices=["bytes", "ready"], default="bytes",
                        help="bytes: converted batch by batch, as pare does it; ready: normalised beforehand")
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    model = (ResNet20 if options.arch == "resnet20" else LeNet)().eval()
    state = torch.load(options.checkpoint, map_location="cpu")["state_dict"]
    model.load_state_dict({name.removeprefix("module."): value for name, value in state.items()})
    images, labels, mean, std = (cifar10 if options.arch == "resnet20" else fashion_mnist)(options.data)
    images, labels = images[:options.limit].contiguous(), labels[:options.limit]

    def normalised(pixels):
        return (pixels.float() / 255 - mean) / std

    if options.images == "ready":
        images = normalised(images)

    def evaluate():
        correct, begin = 0, time.perf_counter()
        with torch.no_grad():
            for i in range(0, len(images), options.batch):
                batch = images[i:i + options.batch]
                if options.images == "bytes":
                    batch = normalised(batch)
                correct += (model(batch).argmax(1) == labels[i:i + options.batch]).sum().item()
        seconds = time.perf_counter() - begin
        return {"seconds": seconds, "images_per_second": len(images) / seconds, "top1": correct / len(images)}

    evaluate()
    for _ in sys.stdin:
        print(json.dumps(evaluate()), flush=True)


if __name__ == "__main__":
    main()
