"""Time a bf16 product again and again for SECONDS, and print its rate in each second: the first is a burst's, the last that of the power limit."""
import sys, time, torch

a, b = (torch.randn(8192, 8192, dtype=torch.bfloat16, device="cuda") for _ in range(2))
start = second = time.time(); n = 0
while time.time() < start + float(sys.argv[1]):
    for _ in range(20):
        torch.matmul(a, b)
    torch.cuda.synchronize(); n += 20
    if (now := time.time()) - second > 1:
        print(f"{now - start:.1f} s: {n * 2 * 8192**3 / (now - second) / 1e12:.0f} TFLOP/s"); second, n = now, 0
