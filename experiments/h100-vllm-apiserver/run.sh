#!/usr/bin/env bash
# Time vLLM's API server by itself: one layer of llama3.2-1b leaves the GPU and the engine's process little to do, so that the API server's thread bounds the tokens and
# requests a second. Writes $OUT/apiserver.tgz. Needs LLMPROF, OUT, and what experiments/vllm/serving.sh needs.
set -u
results=$OUT/apiserver; mkdir -p "$results"; LIMIT=${LIMIT:-300}
. experiments/vllm/serving.sh
python3 experiments/vllm/configs.py /tmp/configs llama3.2-1b+tokenizer
python3 - <<'PY'
import json
f = "/tmp/configs/llama3.2-1b/config.json"
c = json.load(open(f)); c["num_hidden_layers"] = 1; json.dump(c, open(f, "w"))
PY
cp /tmp/configs/llama3.2-1b/config.json "$results/"
machine | tee "$results/machine.txt"
serve /tmp/configs/llama3.2-1b one-layer --max-num-seqs 1024 || exit 1
m() { measure "$1" one-layer 12 "${@:2}"; }
m warm --concurrency 64 --requests 256 --prompt-len 128 --gen-len 64
for clients in 1 16 64 128 256 512; do m tokens$clients --concurrency $clients --requests $((clients < 16 ? 16 : 3 * clients)) --prompt-len 32 --gen-len 256; done # tokens bound
for prompt in 16 256 1024 4096; do m requests$prompt --concurrency 64 --requests 1024 --prompt-len $prompt --gen-len 1; done # requests bound
for rate in 20 40 60; do m rate$rate --rate $rate --requests $((rate * 8)) --prompt-len 128 --gen-len 128; done # headers while tokens are sent
stop; tar czf "$OUT/apiserver.tgz" -C "$OUT" apiserver; rm -r "$results"; ls -la "$OUT"
