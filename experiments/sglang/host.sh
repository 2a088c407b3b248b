#!/usr/bin/env bash
# Measure what SGLang's host takes: TTFT of prompts one at a time and TPOT of small models that no load is scored on, each server in a process of its own.
# Needs LLMPROF, OUT, and SITE, the folder of SGLang's packages; SERVERS names the servers as MODEL[:LAYERS][+FLAG=VALUE]. CUDA graphs of prompts are captured
# for the lengths measured alone, which changes how long a server takes to start and nothing else.
set -u
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH=${SITE:-/tmp/sglang} HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TOKENIZERS_PARALLELISM=false PYTHONUNBUFFERED=1
export TVM_FFI_CACHE_DIR=${TVM_FFI_CACHE_DIR:-$PYTHONPATH/.jit}
RESULTS=${RESULTS:-$(mktemp -d)/host}; mkdir -p "$RESULTS"
PORT=${PORT:-8130} CONFIGS=${CONFIGS:-/tmp/configs-host} LENGTHS=${LENGTHS:-32 128 512 1024}
url=http://127.0.0.1:$PORT; start=$SECONDS; limit=${LIMIT:-1200}; left() { echo $((limit - SECONDS + start)); }
{ nvidia-smi --query-gpu=name,uuid,clocks.sm,power.limit,driver_version --format=csv,noheader; uname -r; lscpu | grep -E 'Model name|Thread|Core|MHz|Hypervisor'; } > "$RESULTS/machine.txt"
python3 "$here/probe.py" > "$RESULTS/probe.csv" & probe=$!
server=; trap 'kill $probe; [ -z "$server" ] || kill -9 -- -$server; tar czf "$OUT/${RESULTS##*/}.tgz" -C "${RESULTS%/*}" "${RESULTS##*/}"' EXIT

ask() { # name of a result, and flags
  timeout "$(left)" "$LLMPROF" measure --engine openai --base-url $url/v1 --model "$served" --ttft --tpot --ttlt "${@:2}" --format json -o "$RESULTS/$run-$1.json" 2> "$RESULTS/$run-$1.err" || tail -2 "$RESULTS/$run-$1.err"
}
round=0
for s in $SERVERS; do
  round=$((round + 1))
  IFS=+ read -r model flag <<< "$s"; IFS=: read -r model layers <<< "$model"
  run=$round-${s//[:+=]/-} served=$model
  [ "$(left)" -gt 90 ] || { echo "no time for $run"; continue; }
  python3 "$here/../vllm/configs.py" "$CONFIGS/$run" "$model+tokenizer" || continue
  [ -z "$layers" ] || sed -i "s/\"num_hidden_layers\": [0-9]*/\"num_hidden_layers\": $layers/" "$CONFIGS/$run/$model/config.json"
  setsid python3 -m sglang.launch_server --model-path "$CONFIGS/$run/$model" --served-model-name "$model" --load-format dummy --port $PORT --grammar-backend none \
    --cuda-graph-bs-prefill $LENGTHS ${flag:+--${flag/=/ }} > "$RESULTS/$run.log" 2>&1 & server=$!
  begun=$SECONDS
  until curl -sf -m 5 $url/health > /dev/null; do
    kill -0 $server 2>/dev/null && [ $((SECONDS - begun)) -lt 240 ] && [ "$(left)" -gt 20 ] || { echo "$run did not start"; tail -15 "$RESULTS/$run.log"; break; }
    sleep 0.5
  done
  if curl -sf -m 5 $url/health > /dev/null; then
    echo "$run is ready after $((SECONDS - begun)) s, at $((SECONDS - start)) s"
    ask warm --prompt-len 1024 --gen-len 16 --concurrency 8 --requests 24
    for n in $LENGTHS; do ask "prompt$n" --concurrency 1 --requests 24 --prompt-len "$n" --gen-len 4; done
    for c in ${BATCHES:-1 16 64}; do ask "batch$c" --concurrency "$c" --requests $((2 * c < 8 ? 8 : 2 * c)) --prompt-len 32 --gen-len 128; done
    [ -z "${PROFILE:-}" ] || { # traces of the steps of prompts, of each rank
      curl -s -m 10 -X POST $url/start_profile -H 'Content-Type: application/json' -d "{\"output_dir\": \"$RESULTS/trace-$run\", \"num_steps\": 4, \"activities\": [\"CPU\", \"GPU\"], \"profile_by_stage\": true}"
      ask profiled --concurrency 1 --requests 8 --prompt-len 128 --gen-len 8
      sleep 3
    }
    date -u +"%FT%TZ measured"
  fi
  kill -- -$server; sleep 2; kill -9 -- -$server; wait $server 2>/dev/null; server=
done
