package serving

// llamaCPP is the scheduler of llama.cpp's server (tools/server): a request begins in a slot that is free, whose share of the cache no
// other takes.
type llamaCPP struct{ vllm }
