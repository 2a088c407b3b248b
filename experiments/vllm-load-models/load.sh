#!/usr/bin/env bash
# Start vLLM's HTTP server for each model of first-traces/loads.tsv, and measure its loads: SET=first load.sh. Needs LLMPROF, OUT, and what experiments/vllm/serving.sh needs.
# ONLY is a pattern of the models to serve. Short prompts one at a time tell how fast the host is.
set -u
here=$(cd "$(dirname "$0")" && pwd); traces=$here/${SET:-first}-traces results=$OUT/results; mkdir -p "$results"
. experiments/vllm/serving.sh
machine | tee "$results/machine.txt"
nvidia-smi --query-gpu=timestamp,power.draw,clocks.sm --format=csv,noheader -lms 200 > "$results/power.csv" 2>/dev/null & smi=$!
begin() { # model, weights: is its server ready?
  model=$1 weights=$2; local flags=(); [ "$2" = bf16 ] || flags=(--quantization "$2")
  python3 experiments/vllm/configs.py /tmp/configs "$1+tokenizer"
  serve "/tmp/configs/$1" "$1" "${flags[@]}" && m "warm-$1-$2" 20 --prompt-len 1024 --gen-len 64 --concurrency 16 --requests 64
}
m() { measure "$1" "$model" "$2" --served-weights "$weights" "${@:3}"; }
sampling=(); [ "${SET:-first}" = third ] && sampling=(--temperature 1) # random weights repeat few tokens otherwise, which choose few experts
for served in $(tail -n +2 "$traces/loads.tsv" | awk -F'\t' '!seen[$2 "," $3]++ {print $2 "," $3}' | grep -E "${ONLY:-.}"); do
  begin "${served%,*}" "${served#*,}" || continue
  for prompt in 128 1024; do m "$model-$weights-prompt$prompt" 20 --concurrency 1 --requests 16 --prompt-len $prompt --gen-len 16; done
  for load in $(awk -F'\t' -v m="$model" -v w="$weights" '$2 == m && $3 == w {print $4}' "$traces/loads.tsv"); do m "$load" 35 --trace "$traces/$load.jsonl" "${sampling[@]}"; done
  curl -s http://127.0.0.1:8123/metrics | grep -v '^#' | grep -E 'prefix_cache|preempt|cache_config' > "$results/metrics-$model-$weights.txt"
  stop
done
if [ "${SET:-first}" = third ] && begin llama3.1-8b bf16; then
  for clients in 16 32 64 96 128 256; do m llama3.1-8b-closed$clients 35 --concurrency $clients --requests $((4 * clients)) --prompt-len 1024 --gen-len 128; done
  stop
fi
kill $smi; tar czf "$OUT/results.tgz" -C "$OUT" results; rm -r "$results"; ls -la "$OUT"
