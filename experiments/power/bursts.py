#!/usr/bin/env python3
"""Measure what a GPU draws while large GEMMs run in bursts, with pauses that keep its mean power below the limit: bursts.py SECONDS > FILE.jsonl

A burst is one GEMM or several in 16 bits of normal values; the host then waits for a multiple of what the burst took. Power is the slope
of NVML's energy counter over SECONDS for each pause, and `busy` the share of that time in which GEMMs ran, by CUDA events. Without a
pause the power limit lowers the clocks.
"""
import json
import statistics
import sys
import threading
import time

import pynvml
import torch

SHAPES = [(8192, 8192, 8192), (8192, 28672, 4096), (8192, 4096, 14336), (2048, 8192, 8192)]
PAUSES = [0, 4, 2, 1, 0.5, 0.25]  # of the time of a burst
CALLS = 1


class Meter(threading.Thread):
    """Readings of NVML every 20 ms: time, energy in J, SM clock in Hz, temperature."""

    def __init__(self, gpu):
        super().__init__(daemon=True)
        self.gpu, self.rows, self.on = gpu, [], True

    def run(self):
        while self.on:
            self.rows.append((time.monotonic(), 1e-3 * pynvml.nvmlDeviceGetTotalEnergyConsumption(self.gpu), 1e6 * pynvml.nvmlDeviceGetClockInfo(self.gpu, 1),
                              pynvml.nvmlDeviceGetTemperature(self.gpu, 0), pynvml.nvmlDeviceGetCurrentClocksEventReasons(self.gpu)))
            time.sleep(0.02)

    def end(self, begin):
        self.on = False
        self.join()
        rows = [r for r in self.rows if r[0] >= begin + 0.4]
        return {"power_w": statistics.linear_regression([r[0] for r in rows], [r[1] for r in rows]).slope, "clock_hz": statistics.median(r[2] for r in rows),
                "temperature_c": statistics.median(r[3] for r in rows), "capped": sum(r[4] & 4 > 0 for r in rows) / len(rows)}


def bursts(gpu, seconds, shape, pause):
    m, n, k = shape
    x, w = torch.randn(m, k, device="cuda", dtype=torch.bfloat16), [torch.randn(n, k, device="cuda", dtype=torch.bfloat16) for _ in range(2)]
    out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.matmul(x, w[0].T, out=out)
    torch.cuda.synchronize()
    meter, times, begin, i = Meter(gpu), [], time.monotonic(), 0
    meter.start()
    while time.monotonic() - begin < seconds:
        a.record()
        for _ in range(CALLS if pause else 8):
            torch.matmul(x, w[i % 2].T, out=out)
            i += 1
        b.record()
        b.synchronize()
        took = 1e-3 * a.elapsed_time(b)
        times.append((time.monotonic(), took))
        until = time.monotonic() + pause * took
        while time.monotonic() < until:
            pass
    seen = meter.end(begin)
    late = [t for at, t in times if at >= begin + 0.4]
    return {"kind": "bursts", "m": m, "n": n, "k": k, "pause": pause, "calls": CALLS if pause else 8, "busy": sum(late) / (times[-1][0] - begin - 0.4),
            "call_s": statistics.median(late) / (CALLS if pause else 8), "tflop_s": 2e-12 * m * n * k * (CALLS if pause else 8) / statistics.median(late), **seen}


def waiting(gpu, seconds):
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    meter, begin = Meter(gpu), time.monotonic()
    meter.start()
    time.sleep(seconds)
    return {"kind": "waiting", **meter.end(begin)}


def main():
    seconds = float(sys.argv[1])
    pynvml.nvmlInit()
    gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
    print(json.dumps({"gpu": pynvml.nvmlDeviceGetName(gpu), "limit_w": pynvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000, "driver": pynvml.nvmlSystemGetDriverVersion(),
                      "max_clock_hz": 1e6 * pynvml.nvmlDeviceGetMaxClockInfo(gpu, 1), "torch": torch.__version__}), flush=True)
    for shape in SHAPES:
        for pause in PAUSES:
            print(json.dumps(bursts(gpu, seconds, shape, pause)), flush=True)
        print(json.dumps(waiting(gpu, seconds)), flush=True)


if __name__ == "__main__":
    main()
