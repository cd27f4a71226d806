#!/usr/bin/python3
"""Transport solvers against POT and SciPy: 200 random problems of each kind, costs equal to 1e-9 relative.

    tests/peers/transport.py build/release/bench_transport
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
import ot
from scipy.optimize import linear_sum_assignment

random = np.random.RandomState(0)


def matrix(m, n, kind):
    if kind == "ties":
        return random.randint(0, 4, (m, n)).astype(float)
    if random.rand() < 0.5:
        return random.rand(m, n)
    return ot.dist(random.randn(m, 5), random.randn(n, 5), metric="euclidean")


def problem(kind):
    n = 1 if kind == "one" else random.randint(2, 120)
    m = n if kind in ("square", "one") else random.randint(1, 120)
    a, b = np.ones(m), np.ones(n)
    if kind == "rational":
        a, b = random.randint(1, 9, m).astype(float), random.randint(1, 9, n).astype(float)
    return matrix(m, n, kind), a / a.sum(), b / b.sum()


failed = 0
with tempfile.TemporaryDirectory() as folder:
    lines, expected, names = [], [], []
    for kind in ("square", "rectangular", "rational", "ties", "one"):
        for k in range(200):
            C, a, b = problem(kind)
            paths = [os.path.join(folder, f"{kind}{k}{part}.npy") for part in "Cab"]
            for path, array in zip(paths, (C, a, b)):
                np.save(path, array)
            lines.append("exact " + " ".join(paths))
            expected.append((ot.emd(a, b, C, numItermax=10**7) * C).sum())
            names.append(f"{kind} {k} transport")
            if C.shape[0] <= C.shape[1]:
                lines.append("assignment " + paths[0])
                expected.append(C[linear_sum_assignment(C)].sum())
                names.append(f"{kind} {k} assignment")
    out = subprocess.run([sys.argv[1]], input="\n".join(lines) + "\n", text=True, stdout=subprocess.PIPE, check=True)
    found = [line.split() for line in out.stdout.splitlines()]
    assert len(found) == len(expected), f"{len(found)} answers to {len(expected)} problems"
    for name, line, cost in zip(names, found, expected):
        if abs(float(line[1]) - cost) > 1e-9 * abs(cost) + 1e-15 or float(line[2]) < -1e-9:
            print(f"{name}: found {line[1]}, slack {line[2]}, expected {cost}")
            failed += 1
print(f"{len(expected)} problems, {failed} failed")
sys.exit(failed != 0)
