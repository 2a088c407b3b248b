#!/usr/bin/env bash
# Start vLLM's HTTP server with llama3.1-8b and random weights, and measure it under ten loads; needs LLMPROF, OUT and traces/ beside this script.
# LIMIT is the seconds that all of it may take. With the prefix cache first, then one load without it.
set -u
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH=${SITE:-$PWD/../site} VLLM_USE_FLASHINFER_SAMPLER=0 VLLM_NO_USAGE_STATS=1 HF_HUB_OFFLINE=1
nvidia-smi --query-gpu=name,uuid,clocks.sm,clocks.mem,power.limit --format=csv,noheader
python3 experiments/vllm/configs.py /tmp/configs llama3.1-8b+tokenizer || exit 1
export LLMPROF=${LLMPROF:-llmprof}; RESULTS=$OUT/results; mkdir -p "$RESULTS"
start=$SECONDS; limit=${LIMIT:-460}; left() { echo $((limit - SECONDS + start)); }
serve() { # name and flags of the server
  python3 -m vllm.entrypoints.cli.main serve /tmp/configs/llama3.1-8b --load-format dummy --port 8123 --served-model-name llama3.1-8b "${@:2}" > "$RESULTS/server-$1.log" 2>&1 &
  server=$!
  until curl -sf http://127.0.0.1:8123/health >/dev/null; do
    kill -0 $server 2>/dev/null || { tail -20 "$RESULTS/server-$1.log"; exit 1; }
    [ "$(left)" -gt 40 ] || { echo "no time: $1"; kill $server; return 1; }
    sleep 0.5
  done
  echo "$1 ready after $((SECONDS - start)) s"
}
m() { name=$1; shift
  [ "$(left)" -gt 30 ] || { echo "no time for $name"; return; }
  timeout "$(left)" "$LLMPROF" measure --engine openai --base-url http://127.0.0.1:8123/v1 --model llama3.1-8b --ttft --tpot --ttlt --format json -o "$RESULTS/$name.json" "$@" 2>"$RESULTS/$name.err"
  echo "$name: $? after $((SECONDS - start)) s"; tail -2 "$RESULTS/$name.err"; }
t() { m "$1" --trace "$here/traces/$2.jsonl"; }
nvidia-smi --query-gpu=timestamp,power.draw,clocks.sm,clocks_event_reasons.active --format=csv,noheader -lms 200 > "$RESULTS/smi.csv" 2>/dev/null & smi=$!
serve cached || { kill $smi; exit 1; }
m warm --prompt-len 1024 --gen-len 64 --concurrency 16 --requests 64
t load50 load50; t load80 load80; t prefix prefix; t mixed50 mixed50; t load120 load120; t load95 load95; t mixed80 mixed80; t load20 load20
m closed96-mixed --concurrency 96 --requests 480 --prompt-len lognormal:1024,1 --gen-len lognormal:200,0.8
curl -s http://127.0.0.1:8123/metrics | grep -v '^#' | grep -E 'prefix_cache|preempt|cache_config' > "$RESULTS/metrics.txt"
kill $server; wait $server 2>/dev/null
[ "$(left)" -gt 110 ] && serve uncached --no-enable-prefix-caching && { m warm2 --prompt-len 1024 --gen-len 64 --concurrency 16 --requests 64; t prefix-off prefix; kill $server; wait $server 2>/dev/null; }
kill $smi
ls -la "$RESULTS"
