#!/usr/bin/env bash
# Start SGLang's HTTP server with its defaults and random weights, and measure it with llmprof under the loads that predict.sh predicts.
# Needs LLMPROF, OUT, and SITE, the folder of SGLang's packages. LIMIT is the seconds that all of it may take (default 330): llama3.1-8b in bf16 first,
# then with --quantization fp8, then qwen3-30b-a3b where time allows. SERVERS names other ones, STEADY and TRACES some of their loads. Several run side by side on GPUs of one machine with
# CUDA_VISIBLE_DEVICES, and with PORT, RESULTS and CONFIGS of their own.
# A server that does not start with its defaults is started once more without CUDA graphs of prompts, and then with attention in Triton; the log says so.
set -u
here=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH=${SITE:-/tmp/sglang} HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TOKENIZERS_PARALLELISM=false PYTHONUNBUFFERED=1
export TVM_FFI_CACHE_DIR=${TVM_FFI_CACHE_DIR:-$PYTHONPATH/.jit}
LLMPROF=${LLMPROF:-llmprof}; RESULTS=${RESULTS:-$(mktemp -d)/results}; mkdir -p "$RESULTS"
PORT=${PORT:-8124} CONFIGS=${CONFIGS:-/tmp/configs}
url=http://127.0.0.1:$PORT; start=$SECONDS; limit=${LIMIT:-330}; left() { echo $((limit - SECONDS + start)); }
nvidia-smi --query-gpu=name,uuid,clocks.sm,clocks.mem,power.limit,driver_version --format=csv,noheader | tee "$RESULTS/gpu.txt"
python3 experiments/vllm/configs.py "$CONFIGS" {llama3.1-8b,qwen3-30b-a3b,qwen3-32b}+tokenizer || exit 1

begin() { # name, model and flags of a server: is it ready?
  setsid python3 -m sglang.launch_server --model-path "$CONFIGS/$2" --served-model-name "$2" --load-format dummy --port "$PORT" "${@:3}" > "$RESULTS/server-$1.log" 2>&1 &
  server=$!; local begun=$SECONDS
  until curl -sf -m 5 $url/health >/dev/null; do
    kill -0 $server 2>/dev/null || { echo "the server ended: $*"; tail -25 "$RESULTS/server-$1.log"; end; return 1; }
    [ "$(left)" -gt 40 ] && [ $((SECONDS - begun)) -lt "${START:-170}" ] || { echo "no time: $*"; tail -5 "$RESULTS/server-$1.log"; end; return 1; }
    sleep 0.5
  done
  echo "$* is ready after $((SECONDS - begun)) s, at $((SECONDS - start)) s"
  curl -s -m 5 $url/server_info > "$RESULTS/info-$1.json"
}
end() { # the server and the processes that it started
  kill -- -$server 2>/dev/null; for _ in 1 2 3 4 5 6 7 8; do kill -0 -- -$server 2>/dev/null || break; sleep 0.5; done
  kill -9 -- -$server 2>/dev/null; wait $server 2>/dev/null; }
serve() { # likewise, with what a server can do without when it does not start
  begin "$@" || begin "$1-eager" "${@:2}" --cuda-graph-backend-prefill disabled || begin "$1-triton" "${@:2}" --cuda-graph-backend-prefill disabled --attention-backend triton
}
m() { # load, seconds it needs, and flags: one result, unless too little time is left
  local name=$run-$1
  [ "$(left)" -gt "$2" ] || { echo "no time for $name"; return; }
  curl -s -m 5 -X POST $url/flush_cache >/dev/null
  timeout "$(left)" "$LLMPROF" measure --engine openai --base-url $url/v1 --model "$model" --ttft --tpot --ttlt "${@:3}" --format json -o "$RESULTS/$name.json" 2>"$RESULTS/$name.err"
  echo "$name: $? at $((SECONDS - start)) s"; tail -2 "$RESULTS/$name.err"
}
c() { m "batch$1" 15 --concurrency "$1" --requests "$2" --prompt-len 1024 --gen-len 128; }
p() { m "prompt$1" 8 --concurrency 1 --requests 16 --prompt-len "$1" --gen-len 16; }
t() { m "$1" 32 --trace "$here/../vllm-load-mixed/traces/$1.jsonl"; }
profile() { # traces of the steps of a prompt and of decode, which no load is scored on
  [ "$(left)" -gt 25 ] || { echo "no time for traces"; return; }
  curl -s -m 10 -X POST $url/start_profile -H 'Content-Type: application/json' -d "{\"output_dir\": \"$RESULTS/trace-$run\", \"num_steps\": 6, \"activities\": [\"CPU\", \"GPU\"], \"profile_by_stage\": true}"
  "$LLMPROF" measure --engine openai --base-url $url/v1 --model "$model" --concurrency 1 --requests 8 --prompt-len 1000 --gen-len 24 --format json > /dev/null 2>&1
  ls -la "$RESULTS/trace-$run"; echo "traces at $((SECONDS - start)) s"
}
loads() { # name and model of the server, and loads
  run=$1 model=$2
  m warm 10 --prompt-len 1024 --gen-len 64 --concurrency 16 --requests 64
  for l in ${STEADY:-batch1 batch16 batch64 batch4 prompt1024 prompt128 prompt4096 prompt8192 profile}; do
    case $l in
    batch*) c "${l#batch}" $((4 * ${l#batch} < 12 ? 12 : 4 * ${l#batch})) ;;
    prompt*) p "${l#prompt}" ;;
    profile) profile ;;
    esac
  done
  for l in "${@:3}"; do t "$l"; done
}
save() { # all so far in one file
  grep -hE 'server_args=|max_total_num_tokens|KV Cache|Capture|attention backend|mem usage|cuda graph|fired up' "$RESULTS"/server-*.log | cut -c1-6000 > "$RESULTS/settings.txt"
  tar czf "$OUT/${RESULTS##*/}.tgz" -C "${RESULTS%/*}" "${RESULTS##*/}"; }
trap 'save; [ -z "${server:-}" ] || kill -9 -- -$server 2>/dev/null' EXIT
nvidia-smi --query-gpu=timestamp,power.draw,clocks.sm,clocks_event_reasons.active --format=csv,noheader -lms 200 > "$RESULTS/smi.csv" 2>/dev/null & smi=$!
for s in ${SERVERS:-bf16 fp8 moe}; do
  case $s in
  bf16) flags="llama3.1-8b" traces="load50 load95 mixed50 load80" needs=0 ;;
  fp8) flags="llama3.1-8b --quantization fp8" traces="load95 mixed50 load50 load80" needs=95 ;;
  moe) flags="qwen3-30b-a3b" traces="load20 load50 mixed50" needs=130 ;;
  tp2) flags="qwen3-32b --tp 2" traces="load20 load50" needs=150 ;;
  esac
  [ "$(left)" -gt $needs ] || { echo "no time for $s"; continue; }
  serve "$s" $flags || continue
  loads "$s" "${flags%% *}" ${TRACES:-$traces}
  end; save
done
kill $smi; save; ls -la "$OUT"
