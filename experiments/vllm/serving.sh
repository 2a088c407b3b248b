# Functions that start vLLM's HTTP server with random weights and measure it, for scripts that source this file.
# A script sets results, the folder of what is measured; SITE is the folder of vLLM's packages, LIMIT the seconds that all of it may take.
export PYTHONPATH=${SITE:-$PWD/../site} VLLM_USE_FLASHINFER_SAMPLER=0 VLLM_NO_USAGE_STATS=1 HF_HUB_OFFLINE=1
start=$SECONDS
left() { echo $((${LIMIT:-540} - SECONDS + start)); }
machine() { # what the server runs on
  nvidia-smi --query-gpu=name,clocks.max.sm,power.limit,driver_version --format=csv,noheader; lscpu | grep -E '^(Model name|CPU\(s\)|CPU max MHz|BogoMIPS)'
}
serve() { # folder of the model, its name, flags: is the server ready?
  python3 -m vllm.entrypoints.cli.main serve "$1" --load-format dummy --port "${port:-8123}" --served-model-name "$2" "${@:3}" > "$results/server-$2.log" 2>&1 &
  server=$!
  until curl -sf http://127.0.0.1:${port:-8123}/health >/dev/null; do
    kill -0 $server 2>/dev/null || { tail -20 "$results/server-$2.log"; return 1; }
    [ "$(left)" -gt 60 ] || { echo "no time: $2"; kill $server; return 1; }
    sleep 0.5
  done
  echo "$2 is ready after $((SECONDS - start)) s"
}
stop() { kill $server; wait $server 2>/dev/null; }
measure() { # result, model, seconds it needs, flags
  [ "$(left)" -gt "$3" ] || { echo "no time for $1"; return; }
  timeout "$(left)" "${LLMPROF:-llmprof}" measure --engine openai --base-url http://127.0.0.1:${port:-8123}/v1 --model "$2" --ttft --tpot --ttlt --format json -o "$results/$1.json" "${@:4}" 2>"$results/$1.err"
  echo "$1: $? after $((SECONDS - start)) s"; tail -1 "$results/$1.err"
}
