#!/usr/bin/env bash
# Calibrate the native engine on this GPU, then predict and measure the points of experiments/h100-native/grid.toml.
# Needs RESULTS, LLMPROF, GRID. $LIMIT seconds in all.
set -u
limit=${LIMIT:-400}; start=$SECONDS; out=$RESULTS/native; mkdir -p "$out"
timeout 280 "$LLMPROF" calibrate --engine native --rows "$out/h100-native.jsonl" --limit 240s -o "$out/h100.native.toml" >"$out/calibrate.txt" 2>&1
echo "calibrate: $? after $((SECONDS - start)) s"
calibration=$out/h100.native.toml
timeout -s INT -k 15 $((limit - SECONDS + start - 5)) "$LLMPROF" validate --live --calibration "$calibration" --grid "$GRID" --results "$out" >"$out/validate.txt" 2>&1
echo "validate: $? after $((SECONDS - start)) s"
