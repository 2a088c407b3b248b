#!/usr/bin/env bash
# Serve two hybrids by vLLM 0.33 beside each other on one H200, and measure the loads that prepare.py drew, one after the other: run.sh, after
# `source env-vllm-0.33`, with $OUT, $LLMPROF and $LIMIT, the seconds that all may take.
set -u
begun=$SECONDS; here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd); res=$(mktemp -d)
export VLLM_WORKER_MULTIPROC_METHOD=spawn
left() { echo $((LIMIT - SECONDS + begun)); }
declare -A port=([qwen3.5-9b]=8123 [qwen3.6-35b-a3b]=8124) share=([qwen3.5-9b]=0.33 [qwen3.6-35b-a3b]=0.62) group
finish() {
  for g in "${group[@]}"; do kill -9 -- "-$g" 2>/dev/null; done
  for f in "$res"/*.log; do tail -c 40000 "$f" >"$f.t" && mv "$f.t" "$f"; done
  tar czf "$OUT/hybrid-load.tgz" -C "$res" .; ls -la "$OUT"; echo "done after $((SECONDS - begun)) s"
}
trap finish EXIT
nvidia-smi --query-gpu=name,clocks.max.sm,power.limit,driver_version --format=csv,noheader >"$res/machine.txt"; lscpu | grep -E '^(Model name|CPU\(s\)|BogoMIPS)' >>"$res/machine.txt"
for m in qwen3.6-35b-a3b qwen3.5-9b; do
  setsid python3 -m vllm.entrypoints.cli.main serve "$here/models/$m" --load-format dummy --port "${port[$m]}" --served-model-name "$m" --no-enable-prefix-caching \
    --max-model-len 8192 --gpu-memory-utilization "${share[$m]}" --kv-cache-memory-bytes 20000000000 --additional-config '{"gdn_prefill_backend":"triton"}' >"$res/$m.log" 2>&1 &
  group[$m]=$!
done
measure() { # model, name, seconds that it needs, flags
  [ "$(left)" -gt "$3" ] || { echo "no time for $2"; return; }
  timeout "$(left)" "$LLMPROF" measure --engine openai --base-url "http://127.0.0.1:${port[$1]}/v1" --model "$1" --ttft --tpot --ttlt --served-weights bf16 \
    --temperature 1 --format json -o "$res/$2.json" "${@:4}" >/dev/null 2>"$res/$2.err"
  echo "$2: $? after $((SECONDS - begun)) s: $(tail -1 "$res/$2.err" | cut -c1-300)"
}
for m in qwen3.5-9b qwen3.6-35b-a3b; do
  until curl -sf "http://127.0.0.1:${port[$m]}/health" >/dev/null; do
    kill -0 "${group[$m]}" 2>/dev/null || { echo "$m ended"; tail -15 "$res/$m.log"; continue 2; }
    [ "$(left)" -gt 60 ] || { echo "no time for $m"; tail -3 "$res/$m.log"; continue 2; }
    sleep 0.5
  done
  echo "$m is ready after $((SECONDS - begun)) s"
  measure "$m" "$m-warm" 30 --prompt-len 1024 --gen-len 64 --concurrency 16 --requests 64
  measure "$m" "$m-alone" 25 --prompt-len 1024 --gen-len 128 --concurrency 1 --requests 8
  for percent in 50 80; do measure "$m" "$m-$percent" 40 --trace "$here/$m-$percent.jsonl"; done
done
