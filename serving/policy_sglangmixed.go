package serving

// sglangMixed is the scheduler of SGLang with --enable-mixed-chunk: prompts and sequences that decode share steps.
type sglangMixed struct{ vllm }
