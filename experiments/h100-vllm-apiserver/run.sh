#!/usr/bin/env bash
# Time vLLM's API server by itself: one layer of llama3.2-1b leaves the GPU and the engine's process little to do, so that the API server's thread bounds the tokens and
# requests a second. Writes $OUT/apiserver.tgz. Needs LLMPROF, OUT, and SITE, vLLM's packages. LIMIT is the seconds that all of it may take.
set -u
export PYTHONPATH=${SITE:-$PWD/../site} VLLM_USE_FLASHINFER_SAMPLER=0 VLLM_NO_USAGE_STATS=1 HF_HUB_OFFLINE=1
results=$OUT/apiserver; mkdir -p "$results"; start=$SECONDS; left() { echo $((${LIMIT:-240} - SECONDS + start)); }
python3 experiments/vllm/configs.py /tmp/configs llama3.2-1b+tokenizer
python3 - <<'PY'
import json
f = "/tmp/configs/llama3.2-1b/config.json"
c = json.load(open(f)); c["num_hidden_layers"] = 1; json.dump(c, open(f, "w"))
PY
cp /tmp/configs/llama3.2-1b/config.json "$results/"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tee "$results/machine.txt"; lscpu | grep -E '^(Model name|CPU\(s\)|BogoMIPS)' | tee -a "$results/machine.txt"
python3 -m vllm.entrypoints.cli.main serve /tmp/configs/llama3.2-1b --load-format dummy --port 8123 --served-model-name one-layer --max-num-seqs 1024 > "$results/server.log" 2>&1 & server=$!
until curl -sf http://127.0.0.1:8123/health >/dev/null; do
  kill -0 $server 2>/dev/null || { tail -20 "$results/server.log"; exit 1; }
  [ "$(left)" -gt 30 ] || exit 1
  sleep 0.5
done
echo "ready after $((SECONDS - start)) s"
measure() { # result and flags
  [ "$(left)" -gt 12 ] || { echo "no time for $1"; return; }
  timeout "$(left)" "${LLMPROF:-llmprof}" measure --engine openai --base-url http://127.0.0.1:8123/v1 --model one-layer --ttft --tpot --ttlt --format json -o "$results/$1.json" "${@:2}" 2>"$results/$1.err"
  echo "$1: $? after $((SECONDS - start)) s"; tail -1 "$results/$1.err"
}
measure warm --concurrency 64 --requests 256 --prompt-len 128 --gen-len 64
for clients in 1 16 64 128 256 512; do measure tokens$clients --concurrency $clients --requests $((clients < 16 ? 16 : 3 * clients)) --prompt-len 32 --gen-len 256; done # tokens bound
for prompt in 16 256 1024 4096; do measure requests$prompt --concurrency 64 --requests 1024 --prompt-len $prompt --gen-len 1; done # requests bound
for rate in 20 40 60; do measure rate$rate --rate $rate --requests $((rate * 8)) --prompt-len 128 --gen-len 128; done # headers while tokens are sent
kill $server; tar czf "$OUT/apiserver.tgz" -C "$OUT" apiserver; rm -r "$results"; ls -la "$OUT"
