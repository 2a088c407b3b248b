#!/usr/bin/env python3
"""Fit what PyTorch's operators in FP32 reach of a GPU: neusight.py CHECKOUT (of github.com/sitar-lab/NeuSight, MIT).

scripts/asplos/data/dataset has torch.nn.Linear and element-wise kernels in FP32 (PyTorch 2.1, no TF32), the mean of the five
fastest of 25 calls. Products of 20 GFLOP and more, no side of which is below 512, give the share of the vector peak; kernels
that move 200 MB and more give the share of the bandwidth. Each is the median of every other shape, and p90 is the 90th
percentile of its error on the shapes between. The lines are those of analytic/engine/operators.csv.
"""
import csv
import pathlib
import statistics
import sys

BOARDS = {  # key, TFLOP/s in FP32 and GB/s as in hardware.toml
    "NVIDIA H100 80GB HBM3": ("h100-sxm-80gb,", 66.9, 3350), "NVIDIA A100 80GB PCIe": ("a100-pcie-80gb,", 19.5, 1935), "NVIDIA A100-PCIE-40GB": ("a100-pcie-40gb,", 19.5, 1555),
    "NVIDIA L4": ("l4-24gb,", 30.3, 300), "Tesla T4": ("t4,", 8.1, 320), "Tesla V100-PCIE-32GB": ("v100-pcie-32gb,volta", 14, 900),
}
MOVED = {"add": 3, "mul": 3, "div": 3, "addu": 2, "mulu": 2, "divu": 2, "powu": 2, "tanh": 2, "relu": 2, "gelu": 2}  # values for each of the result


def rows(data, name):
    for path in sorted(data.glob(f"test/{name}.csv")) + sorted(data.glob(f"train/collect/{name}/p2.1.0/*.csv")):
        yield from csv.DictReader(path.open())


def products(data, board, peak):
    for r in rows(data, "linear"):
        if r["Device"] == board:
            m, n, k = float(r["B"]) * float(r["M"]), float(r["N"]), float(r["K"])
            if 2 * m * n * k >= 20e9 and min(m, n, k) >= 512:
                yield 2 * m * n * k / (float(r["Latency"]) * 1e-3) / (peak * 1e12)


def elements(data, board, bandwidth):
    for name in ["elem", *MOVED]:
        for r in rows(data, name):
            if r["Device"] == board and r["OPName"] in MOVED:
                size = 4 * MOVED[r["OPName"]] * float(r["B"]) * float(r["H"])
                if size >= 200e6:
                    yield size / (float(r["Latency"]) * 1e-3) / (bandwidth * 1e9)


def show(name, shares):
    shares = list(shares)
    if len(shares) < 20:
        return
    share = statistics.median(shares[::2])
    off = sorted(abs(x / share - 1) for x in shares[1::2])
    print(f"transformers,{name},{share:.3f},{off[int(0.9 * len(off))]:.2f}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("neusight.py: which checkout of NeuSight?")
    csv.field_size_limit(1 << 24)
    dataset = pathlib.Path(sys.argv[1]) / "scripts/asplos/data/dataset"
    for board, (key, peak, bandwidth) in BOARDS.items():
        show(key + ",vector_gemm.compute", products(dataset, board, peak))
        show(key + ",element.unfused", elements(dataset, board, bandwidth))
