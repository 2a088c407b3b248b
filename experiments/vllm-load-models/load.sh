#!/usr/bin/env bash
# Start vLLM's HTTP server with random weights for each model of first-traces/loads.tsv, and measure its loads: SET=first load.sh. Needs LLMPROF, OUT, and SITE, vLLM's packages.
# LIMIT is the seconds that all of it may take; ONLY is a pattern of the models to serve. Short prompts one at a time tell how fast the host is.
set -u
here=$(cd "$(dirname "$0")" && pwd); traces=$here/${SET:-first}-traces
export PYTHONPATH=${SITE:-$PWD/../site} VLLM_USE_FLASHINFER_SAMPLER=0 VLLM_NO_USAGE_STATS=1 HF_HUB_OFFLINE=1
RESULTS=$OUT/results; mkdir -p "$RESULTS"; start=$SECONDS; left() { echo $((${LIMIT:-540} - SECONDS + start)); }
nvidia-smi --query-gpu=name,clocks.max.sm,power.limit,driver_version --format=csv,noheader | tee "$RESULTS/machine.txt"
lscpu | grep -E '^(Model name|CPU\(s\)|CPU max MHz)' | tee -a "$RESULTS/machine.txt"
measure() { # result, seconds it needs, flags; the model and the weights are those of the server
  [ "$(left)" -gt "$2" ] || { echo "no time for $1"; return; }
  timeout "$(left)" "${LLMPROF:-llmprof}" measure --engine openai --base-url http://127.0.0.1:8123/v1 --model "$model" --served-weights "$weights" --ttft --tpot --ttlt --format json -o "$RESULTS/$1.json" "${@:3}" 2>"$RESULTS/$1.err"
  echo "$1: $? after $((SECONDS - start)) s"; tail -1 "$RESULTS/$1.err"
}
serve() { # model, weights: is it ready?
  local flags=(); [ "$2" = bf16 ] || flags=(--quantization "$2")
  python3 experiments/vllm/configs.py /tmp/configs "$1+tokenizer"
  python3 -m vllm.entrypoints.cli.main serve "/tmp/configs/$1" --load-format dummy --port 8123 --served-model-name "$1" "${flags[@]}" > "$RESULTS/server-$1-$2.log" 2>&1 &
  server=$!
  until curl -sf http://127.0.0.1:8123/health >/dev/null; do
    kill -0 $server 2>/dev/null || { tail -20 "$RESULTS/server-$1-$2.log"; return 1; }
    [ "$(left)" -gt 60 ] || { echo "no time: $1 $2"; kill $server; return 1; }
    sleep 0.5
  done
  echo "$1 $2 is ready after $((SECONDS - start)) s"
}
nvidia-smi --query-gpu=timestamp,power.draw,clocks.sm --format=csv,noheader -lms 200 > "$RESULTS/power.csv" 2>/dev/null & smi=$!
sampling=(); [ "${SET:-first}" = third ] && sampling=(--temperature 1) # random weights repeat few tokens otherwise, which choose few experts
for served in $(tail -n +2 "$traces/loads.tsv" | awk -F'\t' '!seen[$2 "," $3]++ {print $2 "," $3}' | grep -E "${ONLY:-.}"); do
  model=${served%,*} weights=${served#*,}
  serve "$model" "$weights" || continue
  measure "warm-$model-$weights" 20 --prompt-len 1024 --gen-len 64 --concurrency 16 --requests 64
  for prompt in 128 1024; do measure "$model-$weights-prompt$prompt" 20 --concurrency 1 --requests 16 --prompt-len $prompt --gen-len 16; done
  for load in $(awk -F'\t' -v m="$model" -v w="$weights" '$2 == m && $3 == w {print $4}' "$traces/loads.tsv"); do measure "$load" 35 --trace "$traces/$load.jsonl" "${sampling[@]}"; done
  curl -s http://127.0.0.1:8123/metrics | grep -v '^#' | grep -E 'prefix_cache|preempt|cache_config' > "$RESULTS/metrics-$model-$weights.txt"
  kill $server; wait $server 2>/dev/null
done
if [ "${SET:-first}" = third ] && model=llama3.1-8b weights=bf16 && serve llama3.1-8b bf16; then
  measure warm-closed 20 --prompt-len 1024 --gen-len 64 --concurrency 16 --requests 64
  for clients in 16 32 64 96 128 256; do measure llama3.1-8b-closed$clients 35 --concurrency $clients --requests $((4 * clients)) --prompt-len 1024 --gen-len 128; done
  kill $server; wait $server 2>/dev/null
fi
kill $smi; tar czf "$OUT/results.tgz" -C "$OUT" results; rm -r "$RESULTS"; ls -la "$OUT"
