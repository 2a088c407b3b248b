#!/usr/bin/env bash
# Start vLLM's HTTP server with llama3.1-8b and random weights, calibrate on it, predict other points with and without the calibration, then measure those.
# Needs LLMPROF, OUT, and SITE, the folder of vLLM's packages; GPU is h100 or h200, LIMIT the seconds that all of it may take.
set -u
export PYTHONPATH=${SITE:?} VLLM_USE_FLASHINFER_SAMPLER=0 VLLM_NO_USAGE_STATS=1 HF_HUB_OFFLINE=1
model=llama3.1-8b gpu=${GPU:-h100} url=http://127.0.0.1:8123/v1
start=$SECONDS; left() { echo $((${LIMIT:-330} - SECONDS + start)); }
R=$OUT/results; mkdir -p "$R"
nvidia-smi --query-gpu=name,uuid,clocks.max.sm,power.limit,driver_version --format=csv,noheader | tee "$R/gpu.txt"
python3 experiments/vllm/configs.py /tmp/configs $model+tokenizer || exit 1
setsid python3 -m vllm.entrypoints.cli.main serve /tmp/configs/$model --load-format dummy --port 8123 --served-model-name $model > "$R/server.log" 2>&1 &
server=$!
trap 'kill -- -$server 2>/dev/null; gzip -f "$R/server.log"; tar czf "$OUT/results.tgz" -C "$OUT" results' EXIT
until curl -sf http://127.0.0.1:8123/health >/dev/null; do
  kill -0 $server 2>/dev/null && [ "$(left)" -gt 60 ] || { tail -20 "$R/server.log"; exit 1; }
  sleep 0.5
done
echo "ready at $((SECONDS - start)) s"
m() { # name and flags: one result
  [ "$(left)" -gt 8 ] || { echo "no time for $1"; return; }
  timeout "$(left)" "$LLMPROF" measure --engine openai --base-url $url --model $model --ttft --tpot --ttlt --format json -o "$R/$1.json" "${@:2}" 2> "$R/$1.err"
  echo "$1: $? at $((SECONDS - start)) s"
}
m warm --prompt-len 1024 --gen-len 64 --concurrency 16 --requests 64
timeout "$(left)" "$LLMPROF" calibrate --engine openai --base-url $url --model $model --gpu $gpu --limit "${FIT:-110s}" --max-batch 64 --offline -o "$R/server.toml" 2> "$R/calibrate.err"
echo "calibrate: $? at $((SECONDS - start)) s"; tail -12 "$R/calibrate.err"
lengths="128 300 512 700 1024 2048 4096" batches="4 16 64"
predict() { # name of the file, and flags
  for n in $lengths; do "$LLMPROF" estimate $model $gpu --engine vllm --prompt-len $n --gen-len 32 --format json "${@:2}"; done > "$R/$1.jsonl"
  "$LLMPROF" simulate --model $model --gpu $gpu --engine vllm --trace experiments/vllm-load-mixed/traces/load50.jsonl --format json "${@:2}" -o "$R/$1-load50.json"
}
predict before; [ -e "$R/server.toml" ] && predict after --calibration "$R/server.toml"
sha256sum "$R"/before* "$R"/after* | sed "s|$R/||" | tee "$R/predictions.sha256"
for n in $lengths; do m prompt$n --prompt-len $n --gen-len 32 --concurrency 1 --requests 10; done
m load50 --trace experiments/vllm-load-mixed/traces/load50.jsonl
for b in $batches; do m batch$b --prompt-len 512 --gen-len 128 --concurrency $b --requests $((2 * b)); done
