#!/usr/bin/env bash
# Start vLLM's HTTP server with random weights, and measure it under the loads of predict.sh; needs LLMPROF, OUT and the traces beside this script.
# LIMIT is the seconds that all of it may take; SERVERS names those to start: cached, uncached (llama3.1-8b with and without the prefix cache), moe (qwen3-30b-a3b);
# lengths (llama3.1-8b at other lengths), sampled (the mixture at temperature 1).
set -u
here=$(cd "$(dirname "$0")" && pwd); gpu=${GPU:-h100}; traces=$here/traces; [ "$gpu" = h100 ] || traces=$here/traces-$gpu
export PYTHONPATH=${SITE:-$PWD/../site} VLLM_USE_FLASHINFER_SAMPLER=0 VLLM_NO_USAGE_STATS=1 HF_HUB_OFFLINE=1
nvidia-smi --query-gpu=name,clocks.sm,clocks.mem,clocks.max.sm,power.limit --format=csv,noheader
python3 experiments/vllm/configs.py /tmp/configs llama3.1-8b+tokenizer qwen3-30b-a3b+tokenizer || exit 1
export LLMPROF=${LLMPROF:-llmprof}; RESULTS=$OUT/results; mkdir -p "$RESULTS"
start=$SECONDS; limit=${LIMIT:-460}; left() { echo $((limit - SECONDS + start)); }
serve() { # name, model and flags of the server
  model=$2
  python3 -m vllm.entrypoints.cli.main serve "/tmp/configs/$model" --load-format dummy --port 8123 --served-model-name "$model" "${@:3}" > "$RESULTS/server-$1.log" 2>&1 &
  server=$!
  until curl -sf http://127.0.0.1:8123/health >/dev/null; do
    kill -0 $server 2>/dev/null || { tail -20 "$RESULTS/server-$1.log"; return 1; }
    [ "$(left)" -gt 40 ] || { echo "no time: $1"; kill $server; return 1; }
    sleep 0.5
  done
  echo "$1 ready after $((SECONDS - start)) s"
}
stop() { kill $server; wait $server 2>/dev/null; }
m() { name=$1; shift
  [ "$(left)" -gt 30 ] || { echo "no time for $name"; return; }
  timeout "$(left)" "$LLMPROF" measure --engine openai --base-url http://127.0.0.1:8123/v1 --model "$model" --ttft --tpot --ttlt --format json -o "$RESULTS/$name.json" "$@" 2>"$RESULTS/$name.err"
  echo "$name: $? after $((SECONDS - start)) s"; tail -2 "$RESULTS/$name.err"; }
t() { m "$1" --trace "$traces/$2.jsonl" "${@:3}"; }
warm() { m warm-$1 --prompt-len 1024 --gen-len 64 --concurrency 16 --requests 64; }
nvidia-smi --query-gpu=timestamp,power.draw,clocks.sm,clocks_event_reasons.active --format=csv,noheader -lms 200 > "$RESULTS/smi.csv" 2>/dev/null & smi=$!
for s in ${SERVERS:-cached uncached}; do
  case $s in
  cached) serve $s llama3.1-8b || continue; warm $s
    for l in load50 load80 prefix load95 mixed50 load120 mixed80 load20; do t $l $l; done
    m closed64 --concurrency 64 --requests 512 --prompt-len 1024 --gen-len 128
    m closed96-mixed --concurrency 96 --requests 480 --prompt-len lognormal:1024,1 --gen-len lognormal:200,0.8
    curl -s http://127.0.0.1:8123/metrics | grep -v '^#' | grep -E 'prefix_cache|preempt|cache_config' > "$RESULTS/metrics.txt" ;;
  uncached) serve $s llama3.1-8b --no-enable-prefix-caching || continue; warm $s
    t prefix-off prefix; t load80-off load80 ;;
  moe) serve $s qwen3-30b-a3b || continue; warm $s
    t moe50 moe50; t moe80 moe80; m moe-closed32 --concurrency 32 --requests 256 --prompt-len 1024 --gen-len 128 ;;
  lengths) VLLM_GC_DEBUG=1 serve $s llama3.1-8b || continue; warm $s
    for l in short80 long80 short40; do t $l $l; done
    m prompts --concurrency 8 --requests 320 --prompt-len 1024 --gen-len 1
    m closed32 --concurrency 32 --requests 128 --prompt-len 1024 --gen-len 256 ;;
  sampled) serve $s qwen3-30b-a3b || continue; warm $s
    for l in moe50 moe80; do t $l-sampled $l --temperature 1; done ;;
  esac
  stop
done
kill $smi
ls -la "$RESULTS"
