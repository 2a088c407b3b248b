#!/usr/bin/env bash
# Traces models of a few layers by vLLM 0.33 on one H200: layers.sh MODELS, after `source env-vllm-0.33`, with $OUT, and $LIMIT, the seconds that all may
# take. Biases are zero, as run.sh has them, and the configurations of ../h200-sglang/models.py lie in models/. Each model is traced alone.
begun=$SECONDS; limit=${LIMIT:-240}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PYTHONPATH=$here/../h200-hybrids:$PYTHONPATH VLLM_ALLOW_INSECURE_SERIALIZATION=1 VLLM_WORKER_MULTIPROC_METHOD=spawn
work=$(mktemp -d); turns=$work/turns; res=$work/results; mkdir -p "$turns" "$res"; groups=()
finish() {
  for g in "${groups[@]}"; do kill -9 -- "-$g" 2>/dev/null; done
  for f in "$res"/*.log; do tail -c 40000 "$f" >"$f.t" && mv "$f.t" "$f"; done
  tar czf "$OUT/vllm-layers.tgz" -C "$res" .; echo "done after $((SECONDS - begun)) s"
}
trap finish EXIT
loader=$(python3 -c "import importlib.util as u; print(u.find_spec('vllm').submodule_search_locations[0])")/model_executor/model_loader/weight_utils.py
sed -i 's/^    if param.device.type == "meta":/    if "bias" in name:\n        param.zero_()\n        return\n&/' "$loader"
for j in "$@"; do
  setsid python3 "$here/../h200-hybrids/job.py" "$j" "$here/models/$j" "$res" "$turns" 34 >"$res/$j.log" 2>&1 &
  groups+=($!); sleep 1
done
for j in "$@"; do
  while [ "$(ls "$turns"/*.ready 2>/dev/null | wc -l)" -lt $# ] && [ $((SECONDS - begun)) -lt $((limit - 80)) ]; do sleep 0.5; done
  [ -e "$turns/$j.ready" ] || { echo "not started: $j"; tail -5 "$res/$j.log" | cut -c1-300; continue; }
  touch "$turns/$j.go"; t=$SECONDS
  until [ -e "$turns/$j.done" ] || [ $((SECONDS - begun)) -gt $((limit - 6)) ]; do sleep 0.2; done
  echo "$j: $((SECONDS - t)) s, $(grep -c . "$res/$j.jsonl") rows, $(grep '"error"' "$res/$j.jsonl" | head -2 | cut -c1-300)"
done
