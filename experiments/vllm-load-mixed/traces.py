"""Draw the requests of the loads, a line of JSON each: time, prompt and generated tokens, and the hashes of prefixes.

traces.py FOLDER [h100|h200]: the rates are 20, 50, 80, 95 and 120 % of the largest stable rate that `llmprof estimate --rate` named for each."""
import json, math, os, random, sys

def lognormal(r, mean, spread, most):
    s2 = math.log1p(spread * spread)
    return max(1, min(round(math.exp(math.log(mean) - s2 / 2 + math.sqrt(s2) * r.gauss(0, 1))), most))

def poisson(name, rate, seconds, lengths, seed):
    r = random.Random(seed)
    at, rows = 0.0, []
    while at < seconds:
        rows.append((at, lengths(r)))
        at += r.expovariate(rate)
    with open(os.path.join(sys.argv[1], name + ".jsonl"), "w") as f:
        for at, q in rows:
            row = {"time": round(at, 4), "prompt": q[0], "generated": q[1]}
            if len(q) > 2:  # Mooncake's names: milliseconds, and hashes of 512 tokens
                row = {"timestamp": round(1000 * at, 1), "input_length": q[0], "output_length": q[1], "hash_ids": q[2]}
            f.write(json.dumps(row) + "\n")
    print(name, len(rows), "requests", sum(q[0] for _, q in rows), "+", sum(q[1] for _, q in rows), "tokens")

fixed = lambda r: (1024, 128)
mixed = lambda r: (lognormal(r, 1024, 1.0, 16000), lognormal(r, 200, 0.8, 2000))
own = iter(range(1000, 10**9))
def documents(r):  # one of 12 documents of 2048 tokens, a question of 300, of which nothing is shared
    d = r.randrange(12)
    return (2048 + 300, 128, [10 * d + k for k in range(4)] + [next(own)])

RATES = {  # of load20 to load120, of mixed50 and mixed80, of prefix; of the mixture's loads; added to the seeds
    "h100": ((6, 15, 24, 28, 35.5), (12, 19), 9, (), 0),
    "h200": ((6.5, 16.4, 26.2, 31.1, 39.2), (13, 21), 10, (25, 40), 1000)}

os.makedirs(sys.argv[1], exist_ok=True)
loads, lengths, prefix, mixture, seed = RATES[sys.argv[2] if len(sys.argv) > 2 else "h100"]
for percent, rate in zip((20, 50, 80, 95, 120), loads):
    poisson(f"load{percent}", rate, 20, fixed, seed + percent)
for i, (percent, rate) in enumerate(zip((50, 80), lengths)):
    poisson(f"mixed{percent}", rate, 20, mixed, seed + 1 + i)
poisson("prefix", prefix, 20, documents, seed + 3)
for percent, rate in zip((50, 80), mixture):
    poisson(f"moe{percent}", rate, 20, fixed, seed + 4 + percent)
if seed:  # 80 % of the capacity at other lengths, and short prompts
    for i, (name, rate, length) in enumerate((("short80", 56, (512, 64)), ("long80", 6.7, (4096, 128)), ("short40", 40, (128, 128)))):
        poisson(name, rate, 15, lambda r: length, seed + 200 + i)
