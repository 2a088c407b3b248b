#!/usr/bin/env python3
"""Time a fixed piece of Python every 100 ms, in wall and in processor time, beside the share of the processors' time that the hypervisor took: a CSV on standard output."""
import time


def stat():
    user, nice, system, idle, wait, irq, soft, steal = map(int, open("/proc/stat").readline().split()[1:9])
    return user + nice + system + irq + soft, steal, user + nice + system + idle + wait + irq + soft + steal


def work():
    total = 0
    for i in range(20000):
        total += i & 7
    return total


print("time_s,wall_us,processor_us,busy,stolen", flush=True)
before = stat()
while True:
    wall, processor = time.monotonic_ns(), time.thread_time_ns()
    work()
    wall, processor = time.monotonic_ns() - wall, time.thread_time_ns() - processor
    after = stat()
    ticks = max(1, after[2] - before[2])
    print(f"{time.time():.2f},{wall / 1e3:.0f},{processor / 1e3:.0f},{(after[0] - before[0]) / ticks:.3f},{(after[1] - before[1]) / ticks:.4f}", flush=True)
    before = after
    time.sleep(0.1)
