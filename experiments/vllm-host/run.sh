#!/usr/bin/env bash
# Compare the launches of steps with prompts by a host that waits and by one that is busy, in one process of vLLM's server: prompts one at a time, prompts
# half a second apart, and loads. Then calibrate on the server, predict the loads with and without that calibration, and only then measure them.
# Needs LLMPROF, OUT, SERVERS ("MODEL,WEIGHTS ..."), GPU (h100 or h200), and what experiments/vllm/serving.sh needs. LIMIT is in seconds.
set -u
here=$PWD/experiments/vllm-host; results=$OUT/results gpu=${GPU:-h100}; mkdir -p "$results"
. experiments/vllm/serving.sh
python3 "$here/launches.py" /tmp/plugin; export PYTHONPATH=/tmp/plugin:$PYTHONPATH
machine | tee "$results/machine.txt"
nvidia-smi --query-gpu=timestamp,power.draw,clocks.sm --format=csv,noheader -lms 200 > "$results/power.csv" 2>/dev/null & smi=$!
m() { # result, seconds, flags: measured, with the time when it began
  echo "$(date +%s.%N) $model-$weights $1" >> "$results/phases.txt"
  measure "$model-$weights-$1" "$model" "$2" --served-weights "$weights" "${@:3}"
}
spaced() { # prompt: twelve prompts half a second apart
  for i in $(seq 0 11); do echo "{\"time\": $(python3 -c "print($i / 2)"), \"prompt\": $1, \"generated\": 8}"; done > "/tmp/spaced$1.jsonl"
  m "spaced$1" 20 --trace "/tmp/spaced$1.jsonl"
}
loads() { # of this server: names of traces
  case $model-$weights in
    llama3.1-8b-bf16) echo vllm-load-mixed/traces/load50 vllm-load-mixed/traces/load80 vllm-host/traces/short40 ;;
    qwen3-8b-fp8) echo vllm-load-models/first-traces/qwen3-8b-fp8-{50,80} ;;
    llama3.1-8b-fp8) echo vllm-load-models/second-traces/llama3.1-8b-fp8-{20,50,80} ;;
    qwen2.5-7b-bf16) echo vllm-load-models/first-traces/qwen2.5-7b-{50,80,short-80} ;;
    qwen3-30b-a3b-bf16) echo vllm-load-models/third-traces/qwen3-30b-a3b-{50,80} ;;
  esac
}
predict() { # name of what is predicted, flags
  for load in $(loads); do
    "$LLMPROF" simulate -m "$model" -g "$gpu" --engine vllm --weights "$weights" --trace "experiments/$load.jsonl" --format json "${@:2}" -o "$results/$1-$model-$weights-$(basename "$load").json" || echo "no prediction of $load"
  done
}
for served in $SERVERS; do
  model=${served%,*} weights=${served#*,} flags=() sampling=()
  [ "$weights" = bf16 ] || flags=(--quantization "$weights")
  [[ $model == *-a3b ]] && sampling=(--temperature 1) # random weights repeat few tokens otherwise, which choose few experts
  python3 experiments/vllm/configs.py /tmp/configs "$model+tokenizer"
  export LLMPROF_LAUNCHES=$results/launches-$model-$weights.jsonl
  serve "/tmp/configs/$model" "$model" "${flags[@]}" || continue
  m warm 20 --prompt-len 1024 --gen-len 64 --concurrency 16 --requests 64 "${sampling[@]}"
  [ "${ONLY:-}" = loads ] || for prompt in 128 512 1024; do m "lone$prompt" 20 --concurrency 1 --requests 12 --prompt-len $prompt --gen-len 16; done
  [ "${ONLY:-}" = loads ] && { for load in $(loads); do m "$(basename "$load")" 35 --trace "experiments/$load.jsonl" "${sampling[@]}"; done; stop; sleep 2; continue; }
  for prompt in 128 1024; do spaced $prompt; done
  echo "$(date +%s.%N) $model-$weights calibrate" >> "$results/phases.txt"
  timeout 60 "$LLMPROF" calibrate --engine openai --base-url http://127.0.0.1:8123/v1 --model "$model" --served-weights "$weights" --gpu "$gpu" --limit 40s --max-batch 32 --offline -o "$results/$model-$weights.toml" 2> "$results/calibrate-$model-$weights.txt"
  echo "calibrate: $? after $((SECONDS - start)) s"; tail -8 "$results/calibrate-$model-$weights.txt"
  predict before; [ -e "$results/$model-$weights.toml" ] && predict after --calibration "$results/$model-$weights.toml"
  (cd "$results" && sha256sum before-"$model-$weights"-* after-"$model-$weights"-* | tee -a predictions.sha256)
  for load in $(loads); do m "$(basename "$load")" 35 --trace "experiments/$load.jsonl" "${sampling[@]}"; done
  stop; sleep 2
done
kill $smi; tar czf "$OUT/results.tgz" -C "$OUT" results; rm -r "$results"; ls -la "$OUT"
