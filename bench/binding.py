"""What a call costs in Python, for bench/binding.sh: CPU-seconds of one evaluation and one pruning.

binding.py MODEL.onnx IMAGES.npy LABELS.npy arrays|batches     (PYTHONPATH names the directory of the module)
"""

import sys
import time

import numpy as np

import pare

model_file, images_file, labels_file, form = sys.argv[1:]
pare.set_threads(1)
model = pare.load(model_file)
images, labels = np.load(images_file), np.load(labels_file)


def samples():
    if form == "arrays":
        return images, labels
    return ((images[i : i + 100], labels[i : i + 100]) for i in range(0, len(images), 100))


pare.evaluate(model, samples())  # warm
begin = time.process_time()
top1 = pare.evaluate(model, samples())["top1"]
evaluated = time.process_time() - begin
begin = time.process_time()
pruned = pare.prune(model, samples(), channels=0.5, criterion="l1", compensate="nnls")
print(f"{evaluated:.4f} {time.process_time() - begin:.4f} {top1:.6f} {pruned.after.macs}")
