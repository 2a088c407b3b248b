#!/usr/bin/env python3
"""What the kernels of a step take by a trace of PyTorch's profiler: layers.py TRACE...

Steps are runs of more than 60 kernels without a gap of 60 us; the last four of a trace count, as far as all their kernels are in it. Of each kernel: how
many a step, its duration, and the time until the next one starts, in us. The last line is the sum of the latter over the kernels of a layer, which are those
that come for each of LAYERS layers, of which the first or the last may have a kernel of another name.
"""
import collections
import gzip
import json
import sys

LAYERS, GAP, FEWEST, LAST = 12, 60, 60, 4


def steps(path):
    """The kernels of each step, in the order of their starts."""
    events = json.load(gzip.open(path))["traceEvents"]
    kernels = sorted((e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")), key=lambda e: e["ts"])
    runs = [[kernels[0]]]
    for before, e in zip(kernels, kernels[1:]):
        if e["ts"] - before["ts"] - before["dur"] > GAP:
            runs.append([])
        runs[-1].append(e)
    return [r for r in runs if len(r) > FEWEST][-LAST:]


def main():
    for path in sys.argv[1:]:
        print(path)
        found, layer = steps(path), 0.0
        times = collections.defaultdict(list)
        for step in found:
            for e, after in zip(step, step[1:]):
                times[e["name"]].append((e["dur"], after["ts"] - e["ts"]))
        for name, all_times in sorted(times.items(), key=lambda x: -sum(t for _, t in x[1])):
            each = len(all_times) / len(found)
            until = sum(t for _, t in all_times) / len(all_times)
            print(f"{each:6.1f} {sum(d for d, _ in all_times) / len(all_times):9.2f} {until:9.2f}  {name[:90]}")
            layer += until * (round(each / LAYERS) if each >= LAYERS - 1 else 0)
        print(f"a layer: {layer:.1f}")


main()
