#!/usr/bin/env bash
# Start vLLM's HTTP server with llama3.1-8b and random weights, and measure it with llmprof: five results in $RESULTS/server.
# Needs CONFIGS (with llama3.1-8b and its tokenizer), RESULTS, LLMPROF. $LIMIT seconds in all.
set -u
limit=${LIMIT:-230}; start=$SECONDS; out=$RESULTS/server; mkdir -p "$out"
python3 -m vllm.entrypoints.cli.main serve "$CONFIGS/llama3.1-8b" --load-format dummy --no-enable-prefix-caching --port 8123 \
    --served-model-name llama3.1-8b ${SERVE_ARGS:-} >"$out/server.log" 2>&1 &
server=$!
trap 'kill $server 2>/dev/null; wait $server' EXIT
until curl -sf http://127.0.0.1:8123/health >/dev/null; do
    kill -0 $server 2>/dev/null || { echo "the server ended"; tail -20 "$out/server.log"; exit 1; }
    [ $((SECONDS - start)) -lt "$limit" ] || exit 1
    sleep 0.5
done
echo "ready after $((SECONDS - start)) s"
measure() { # name seconds flags: one result, unless too little time is left
    [ $((limit - SECONDS + start)) -gt "$2" ] || { echo "no time for $1"; return; }
    timeout $((limit - SECONDS + start)) "$LLMPROF" measure --engine openai --base-url http://127.0.0.1:8123/v1 --model llama3.1-8b \
        --ttft --tpot --ttlt --prompt-len ${PROMPT:-1024} "${@:3}" --format json -o "$out/$1.json" 2>"$out/$1.err"
    echo "$1: $? after $((SECONDS - start)) s"
}
measure c1 15 --gen-len 64 --concurrency 1 --requests 24
measure c8 15 --gen-len 128 --concurrency 8 --requests 96
measure c32 15 --gen-len 128 --concurrency 32 --requests 192
measure rate4 25 --gen-len 128 --rate 4 --requests 80
measure rate10 20 --gen-len 128 --rate 10 --requests 150
