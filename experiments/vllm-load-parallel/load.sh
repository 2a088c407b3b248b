#!/usr/bin/env bash
# Start vLLM's HTTP server for each server of loads.tsv on its GPUs, and measure its loads: load.sh. Needs LLMPROF, OUT, CONFIGS and what experiments/vllm/serving.sh needs.
# Servers on other GPUs run at the same time.
set -u
here=$(cd "$(dirname "$0")" && pwd) results=$OUT/results; mkdir -p "$results"
. "${SERVING:-experiments/vllm/serving.sh}"
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 CUDA_DEVICE_ORDER=PCI_BUS_ID
machine | tee "$results/machine.txt"
nvidia-smi --query-gpu=index,timestamp,power.draw,clocks.sm --format=csv,noheader -lms 200 > "$results/power.csv" 2>/dev/null & smi=$!
m() { measure "$1" "$model" "$2" --served-model "$name" --temperature 1 "${@:3}"; } # random weights repeat few tokens otherwise, which choose few experts
loads() { awk -F'\t' -v s="$1" 'NR > 1 && $1 == s {print $6}' "$here/loads.tsv"; }
end() { # the server with all its processes, which have its port in their environment
  kill $server; for _ in $(seq 20); do kill -0 $server 2>/dev/null || break; sleep 0.5; done
  grep -lz "^port=$port\$" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3 | xargs -r kill -9 2>/dev/null
}
servers() { # GPUs, port: the servers of these GPUs, one after the other
  export CUDA_VISIBLE_DEVICES=$1 port=$2
  for name in $(awk -F'\t' -v g="$1" 'NR > 1 && $2 == g && !seen[$1]++ {print $1}' "$here/loads.tsv"); do
    IFS=$'\t' read -r model flags < <(awk -F'\t' -v s="$name" '$1 == s {print $3 "\t" $5; exit}' "$here/loads.tsv")
    serve "$CONFIGS/$model" "$name" $flags || { end; continue; }
    m "$name-warm" 15 --concurrency 32 --requests 96 --prompt-len 1024 --gen-len 64
    m "$name-prompt" 10 --concurrency 1 --requests 16 --prompt-len 1024 --gen-len 16
    for load in $(loads "$name"); do m "$load" 27 --trace "$here/traces/$load.jsonl"; done
    curl -s "http://127.0.0.1:$port/metrics" | grep -v '^#' | grep -E 'prefix_cache|preempt|cache_config' > "$results/metrics-$name.txt"
    end
  done
}
servers 0,1 8123 & one=$!
servers 2,3 8124 & two=$!
wait $one $two
kill $smi; tar czf "$OUT/results.tgz" -C "$OUT" results; rm -r "$results"; ls -la "$OUT"
