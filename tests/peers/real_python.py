"""A real network from Python, from its file to ONNX Runtime: samples are an iterable of arrays, and again a DataLoader.

    python3 tests/peers/real_python.py MODEL.onnx PICTURES     (PYTHONPATH names the directory of the module)

PICTURES has labels.csv (file, class, split) beside images/. Exit 1 where something does not hold.
"""

import csv
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
from PIL import Image

import pare

MODEL, PICTURES = sys.argv[1], pathlib.Path(sys.argv[2])
MEAN, STD = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
failed = False


def expect(holds, text):
    global failed
    failed = failed or not holds
    print("ok   " if holds else "FAIL ", text, flush=True)


def image(path):
    picture = Image.open(path).convert("RGB")
    scale = 256 / min(picture.size)
    picture = picture.resize([round(side * scale) for side in picture.size], Image.BILINEAR)
    left, top = ((side - 224) // 2 for side in picture.size)
    pixels = np.asarray(picture.crop((left, top, left + 224, top + 224)), "float32") / 255
    return np.ascontiguousarray(((pixels - MEAN) / STD).transpose(2, 0, 1))


class Pictures(torch.utils.data.Dataset):
    """For `for`, for pare, and for a DataLoader."""

    def __init__(self, split, count=None):
        with open(PICTURES / "labels.csv") as table:
            rows = [row for row in csv.reader(table) if row[2].strip() == split]
        self.rows = rows[:count]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        if i >= len(self.rows):
            raise IndexError(i)
        return image(PICTURES / "images" / self.rows[i][0].removeprefix("images/")), int(self.rows[i][1])


def timed(what, function, *arguments, **options):
    begin = time.process_time()
    result = function(*arguments, **options)
    print(f"      {what}: {time.process_time() - begin:.1f} CPU-seconds", flush=True)
    return result


def run_elsewhere(graph, inputs):
    """The scores that ONNX Runtime computes."""
    with tempfile.TemporaryDirectory() as directory:
        graph.save(f"{directory}/model.onnx")
        np.save(f"{directory}/in.npy", inputs)
        script = pathlib.Path(__file__).with_name("ort_run.mjs")
        subprocess.run(["node", script, f"{directory}/model.onnx", f"{directory}/in.npy", directory], check=True)
        return np.load(f"{directory}/{graph.outputs[0]['name']}.npy")


model = pare.load(MODEL)
print("     ", model)
learned, judged = Pictures("train", 128), Pictures("test", 100)
before = timed("evaluate", pare.evaluate, model, (pair for pair in judged))
pruned = timed("prune", pare.prune, model, (picture for picture, _ in learned), macs=0.1)
after = timed("evaluate", pare.evaluate, pruned.graph, (pair for pair in judged))
expect(pruned.after.macs <= 0.905 * pruned.before.macs, f"{pruned.after.macs / pruned.before.macs:.3f} of the MACs")
expect(after["top1"] >= before["top1"] - 0.1, f"top-1 {before['top1']:.3f} before, {after['top1']:.3f} after")

maps = timed("explain", pare.explain, pruned.graph, (picture for picture, _ in Pictures("test", 8)))
expect(maps.maps.shape[0] == 8 and np.isfinite(maps.maps).all() and maps.maps.any(), f"maps {maps.maps.shape}")

batch = np.stack([judged[i][0] for i in range(4)])
theirs, ours = run_elsewhere(pruned.graph, batch), pare.run(pruned.graph, batch)[0]
distance = np.abs(theirs - ours).max() / np.abs(theirs).max()
expect(distance < 1e-4, f"ONNX Runtime runs the result: outputs differ by {distance:.1e} of the largest")

loader = torch.utils.data.DataLoader(judged, batch_size=16)
expect(pare.evaluate(pruned.graph, loader).metrics == after.metrics, "a DataLoader measures the same")
again = timed("prune", pare.prune, model, torch.utils.data.DataLoader(learned, batch_size=16), macs=0.1)
same = [group.kept for group in again.groups] == [group.kept for group in pruned.groups]
expect(same and np.allclose(pare.run(again.graph, batch)[0], ours, atol=1e-3), "a DataLoader prunes the same")
mapped = pare.explain(pruned.graph, torch.utils.data.DataLoader(Pictures("test", 8), batch_size=3))
expect(np.allclose(mapped.maps, maps.maps, atol=1e-4), "a DataLoader is explained the same")
sys.exit(failed)
