#!/usr/bin/python3
"""Transport solvers beside POT and SciPy, one thread, rounds interleaved, medians.

    cmake --preset release -DPARE_BENCH=ON && cmake --build --preset release --target bench_transport
    OMP_NUM_THREADS=1 bench/transport.py build/release/bench_transport [ROUNDS]

Needs python3-pot and python3-scipy. Peers get the same matrices in memory; reading and printing is not timed.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["OMP_NUM_THREADS"] = "1"
import numpy as np
import ot
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

program = sys.argv[1]
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
folder = tempfile.TemporaryDirectory()
solver = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ours(kind, cost):
    path = os.path.join(folder.name, "cost.npy")
    np.save(path, cost)
    solver.stdin.write(f"{kind} {path}\n")
    solver.stdin.flush()
    seconds, value = solver.stdout.readline().split()[:2]
    return float(seconds), float(value)


def timed(function):
    start = time.perf_counter()
    value = function()
    return time.perf_counter() - start, value


def costs(kind, m, n):
    random = np.random.RandomState(m + n)
    if kind == "uniform":
        return random.rand(m, n)
    x = random.randn(m, 64)
    if kind == "correlated":  # a second net that is the first, permuted and disturbed
        return cdist(x, x[random.permutation(m)[:n]] + 0.3 * random.randn(n, 64))
    return cdist(x, random.randn(n, 64))


def report(name, found, peers):
    median = statistics.median(found)
    peers = {peer: statistics.median(times) for peer, times in peers.items()}
    fastest = min(peers.values())
    print(f"{name:32} pare {median:.4f} s  " + "  ".join(f"{p} {t:.4f} s" for p, t in peers.items())
          + f"  {fastest / median:.2f}x", flush=True)


for n in (1024, 2048, 4096):
    for kind in ("gaussian", "uniform", "correlated"):
        C = costs(kind, n, n)
        a = np.ones(n) / n
        mine, scipy, pot = [], [], []
        for _ in range(rounds):
            seconds, cost = ours("assignment", C)
            mine.append(seconds)
            seconds, pair = timed(lambda: linear_sum_assignment(C))
            scipy.append(seconds)
            assert abs(C[pair].sum() - cost) <= 1e-9 * abs(cost), (C[pair].sum(), cost)
            pot.append(timed(lambda: ot.emd(a, a, C, numItermax=10**7))[0])
        report(f"assignment {kind} {n}", mine, {"scipy": scipy, "pot": pot})

for m, n in ((1024, 512), (1000, 700)):
    for kind in ("gaussian", "uniform", "correlated"):
        C = costs(kind, m, n)
        a, b = np.ones(m) / m, np.ones(n) / n
        mine, pot = [], []
        for _ in range(3 * rounds):
            seconds, cost = ours("exact", C)
            mine.append(seconds)
            seconds, plan = timed(lambda: ot.emd(a, b, C, numItermax=10**7))
            pot.append(seconds)
            assert abs((plan * C).sum() - cost) <= 1e-9 * abs(cost)
        report(f"transport {kind} {m}x{n}", mine, {"pot": pot})

n = 2048
C = costs("gaussian", n, n)
a = np.ones(n) / n
mine, pot = [], []
for _ in range(rounds):
    seconds, cost = ours("sinkhorn:0.02:10000", C)
    mine.append(seconds)
    seconds, plan = timed(lambda: ot.sinkhorn(a, a, C / C.max(), 0.02, method="sinkhorn_log", stopThr=1e-9,
                                              numItermax=10000))
    pot.append(seconds)
    assert abs((plan * C).sum() - cost) <= 1e-6 * abs(cost), ((plan * C).sum(), cost)
report(f"sinkhorn gaussian {n}", mine, {"pot": pot})
