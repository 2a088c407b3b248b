#!/usr/bin/env bash
# Start vLLM's HTTP server with llama3.1-8b and random weights, and measure it under seven loads; needs LLMPROF and OUT.
set -u
export PYTHONPATH=$PWD/../site VLLM_USE_FLASHINFER_SAMPLER=0 VLLM_NO_USAGE_STATS=1 HF_HUB_OFFLINE=1
nvidia-smi --query-gpu=name,uuid,clocks.sm,clocks.mem,power.limit --format=csv,noheader
python3 experiments/vllm/configs.py /tmp/configs llama3.1-8b+tokenizer || exit 1
ls /tmp/configs
export CONFIGS=/tmp/configs RESULTS=/tmp/res LLMPROF=${LLMPROF:-llmprof}
mkdir -p $RESULTS/server
start=$SECONDS; limit=${LIMIT:-400}
python3 -m vllm.entrypoints.cli.main serve /tmp/configs/llama3.1-8b --load-format dummy --no-enable-prefix-caching --port 8123 --served-model-name llama3.1-8b > $RESULTS/server/server.log 2>&1 &
server=$!
until curl -sf http://127.0.0.1:8123/health >/dev/null; do
  kill -0 $server 2>/dev/null || { tail -20 $RESULTS/server/server.log; exit 1; }
  [ $((SECONDS - start)) -lt 220 ] || { tail -5 $RESULTS/server/server.log; exit 1; }
  sleep 0.5
done
echo "ready after $((SECONDS - start)) s"
m() { name=$1; shift
  [ $((limit - SECONDS + start)) -gt 25 ] || { echo "no time for $name"; return; }
  timeout $((limit - SECONDS + start)) $LLMPROF measure --engine openai --base-url http://127.0.0.1:8123/v1 --model llama3.1-8b --ttft --tpot --ttlt --format json -o $RESULTS/server/$name.json "$@" 2>$RESULTS/server/$name.err
  echo "$name: $? after $((SECONDS - start)) s"; tail -2 $RESULTS/server/$name.err; }
m rate16 --prompt-len 1024 --gen-len 128 --rate 16 --requests 320
m rate20 --prompt-len 1024 --gen-len 128 --rate 20 --requests 400
m c64 --prompt-len 1024 --gen-len 128 --concurrency 64 --requests 320
m short40 --prompt-len 128 --gen-len 128 --rate 40 --requests 600
m rate24 --prompt-len 1024 --gen-len 128 --rate 24 --requests 400
m c128 --prompt-len 1024 --gen-len 128 --concurrency 128 --requests 512
m long2 --prompt-len 8192 --gen-len 128 --rate 2 --requests 60
nvidia-smi --query-gpu=clocks.sm,power.draw,clocks_event_reasons.active --format=csv,noheader
kill $server
cp -r $RESULTS/server $OUT/
