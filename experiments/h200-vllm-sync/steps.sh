#!/usr/bin/env bash
# Time steps of vLLM 0.25.1 without asynchronous scheduling, by its V1 model runner, in one process and with a worker process:
# what a step's host time is where nothing hides it (vLLM's releases before asynchronous scheduling was the default).
# Run in the repository root; needs OUT, and SITE, the folder of vLLM's packages. 4 engines, each 30 to 75 s of start-up and some 25 s of steps; the most valuable first. LIMIT: seconds in all (default 420).
set -u
export PYTHONPATH=${SITE:-$(realpath ../site)} VLLM_USE_FLASHINFER_SAMPLER=0 VLLM_NO_USAGE_STATS=1 HF_HUB_OFFLINE=1
export VLLM_CACHE_ROOT=${VLLM_CACHE_ROOT:-/tmp/sglang-vllm-cache}
limit=${LIMIT:-420}; start=$SECONDS
nvidia-smi --query-gpu=name,clocks.sm,clocks.mem,power.limit,driver_version --format=csv,noheader | tee "$OUT/gpu.txt"
python3 experiments/vllm/configs.py /tmp/configs llama3.1-8b llama3.2-1b || exit 1
part() { # name, V2 model runner or not, and the jobs as JSON
  local left=$((limit - SECONDS + start))
  [ $left -gt 60 ] || { echo "no time for $1"; return; }
  local state=/tmp/sglang-state-$1; rm -rf "$state"; mkdir -p "$state" "$OUT/$1"
  echo "$3" > "$state/jobs.json"
  VLLM_USE_V2_MODEL_RUNNER=$2 timeout -k 5 $left python3 experiments/vllm/steps.py /tmp/configs "$state" "$OUT/$1" $((left - 5))
  rm -rf "$OUT/$1"/*.json.gz.tmp; tail -n 3 "$OUT/$1"/*.log | cut -c1-300
  echo "$1: after $((SECONDS - start)) s"
}
R='{"repeats": 2}'
decode() { for b in $1; do printf '["decode", %s, %s, %s], ' "$b" "$2" "$R"; done; }
D="$(decode '1 8 16 32 64 2 4 128' 1024)$(decode '1 64' 128)"
P='["prompts", 1, 1024, 32], ["prompts", 8, 1024, 24], ["prompts", 1, 128, 1], ["prompts", 1, 512, 1], ["prompts", 1, 1024, 1], ["mixed", 8, 1024, 1024]'
SYNC='"async_scheduling": false'
MP='"distributed_executor_backend": "mp"'
part v1 0 "[{\"name\": \"llama3.1-8b-sync-mp\", \"model\": \"llama3.1-8b\", \"least_s\": 50, \"most_s\": 150, \"args\": {$SYNC, $MP}, \"points\": [$D $P]},
 {\"name\": \"llama3.2-1b-sync-mp\", \"model\": \"llama3.2-1b\", \"least_s\": 50, \"most_s\": 120, \"args\": {$SYNC, $MP}, \"points\": [$D $P]},
 {\"name\": \"llama3.1-8b-sync\", \"model\": \"llama3.1-8b\", \"least_s\": 50, \"most_s\": 120, \"args\": {$SYNC}, \"points\": [$D $P]}]"
part v2 1 "[{\"name\": \"llama3.1-8b-async-mp\", \"model\": \"llama3.1-8b\", \"least_s\": 50, \"most_s\": 120, \"args\": {$MP}, \"points\": [$D $P]}]"
