#!/usr/bin/env bash
# Measures models with windows and with experts by vLLM 0.33 on one H200: run.sh, after `source env-vllm-0.33`, with $OUT and $LIMIT, the seconds
# that all may take, and the configurations of ../h200-sglang/models.py in models/. All engines start beside each other, then each measures alone. Biases
# are zero: those of the dummy weights, which are as large as what tells tokens apart, would have all of them choose the same experts.
begun=$SECONDS; limit=${LIMIT:-480}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export VLLM_WORKER_MULTIPROC_METHOD=spawn
turns=$(mktemp -d); groups=()
finish() { for g in "${groups[@]}"; do kill -9 -- "-$g" 2>/dev/null; done; for f in "$OUT"/*.log; do tail -c 60000 "$f" >"$f.t" && mv "$f.t" "$f"; done; echo "done after $((SECONDS - begun)) s"; }
trap finish EXIT
loader=$(python3 -c "import importlib.util as u; print(u.find_spec('vllm').submodule_search_locations[0])")/model_executor/model_loader/weight_utils.py
sed -i 's/^    if param.device.type == "meta":/    if "bias" in name:\n        param.zero_()\n        return\n&/' "$loader"
grep -B4 'param.device.type == "meta"' "$loader"
points="1x128 1x1024 8x1024 32x1024 1x8192 8x128 128x512 128x1024"
share=0.28
for j in gpt-oss-20b gemma3-12b deepseek-v2-lite; do
  setsid python3 "$here/../h200-pair/bench.py" vllm "$j" "$here/models/$j" "$OUT" 60 "$points" \
    "{\"gen\": 65, \"turns\": \"$turns\", \"gpu_memory_utilization\": $share, \"max_model_len\": 16384, \"additional_config\": {}}" >"$OUT/$j.log" 2>&1 &
  groups+=($!); sleep 2
done
nvidia-smi --query-gpu=name,clocks.max.sm,power.limit,driver_version --format=csv; lscpu | grep -E '^(Model name|CPU\(s\)|BogoMIPS)'
for j in gpt-oss-20b gemma3-12b deepseek-v2-lite; do
  # No engine measures while another starts, unless there is no time left to wait.
  while [ "$(ls "$turns"/*.ready 2>/dev/null | wc -l)" -lt 3 ] && [ $((SECONDS - begun)) -lt $((limit * 6 / 10)) ]; do sleep 0.5; done
  [ -e "$turns/$j.ready" ] || { echo "not started: $j"; tail -5 "$OUT/$j.log" | cut -c1-300; continue; }
  touch "$turns/$j.go"; t=$SECONDS
  until grep -q '"end"' "$OUT/$j.jsonl" || [ $((SECONDS - begun)) -gt $((limit - 8)) ]; do sleep 0.2; done
  echo "$j: $((SECONDS - t)) s, $(grep -c . "$OUT/$j.jsonl") rows, $(grep '"error"' "$OUT/$j.jsonl" | head -2 | cut -c1-400)"
done
