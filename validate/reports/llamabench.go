package reports

import (
	"fmt"
	"path/filepath"
	"strings"

	"llmprof/validate"
)

// llamaBench is what llama-bench writes with -o json or jsonl: tests of a prompt without an answer, whose time is a TTFT, and of an answer
// without a prompt, whose tokens take a TPOT at the depth of the cache.
var llamaBench = tool{
	what: "the result of llama-bench",
	is:   func(o object) bool { return o.has("build_number", "model_type", "avg_ns") },
	runs: func(records []object) (all []*Run, err error) {
		for _, o := range records {
			prompt, gen, depth := o.count("n_prompt"), o.count("n_gen"), o.count("n_depth")
			r := &Run{
				Engine: "llama.cpp", GPU: o.text("gpu_info"), Weights: ggufFormat(o.text("model_type")), Clients: 1,
				Model:  strings.TrimSuffix(filepath.Base(o.text("model_filename")), ".gguf"),
				Params: int64(min(max(o.number("model_n_params"), 0), 1e15)), Placement: placement(o),
			}
			seconds := o.numbers("samples_ns")
			if len(seconds) == 0 {
				seconds = []float64{o.number("avg_ns")}
			}
			metric, per := validate.TTFT, 1e-9
			switch {
			case prompt > 0 && gen == 0 && depth == 0:
				r.Prompt, r.Gen = float64(prompt), 1
			case gen > 0 && prompt == 0:
				metric, per = validate.TPOT, 1e-9/float64(gen)
				r.Prompt, r.Gen = float64(max(depth, 1)), float64(gen+1)
			default: // a prompt behind others, or both in one test: neither time is told
				continue
			}
			for i := range seconds {
				seconds[i] *= per
			}
			r.sampled(metric, seconds)
			all = append(all, r)
		}
		return all, nil
	},
}

// placement is what of a test lies in the memory of the host and how it is read, as engine.ParsePlacement reads it.
func placement(o object) (text string) {
	add := func(words ...any) { text += " " + strings.TrimSpace(fmt.Sprintln(words...)) }
	if n := o.number("n_gpu_layers"); o.has("n_gpu_layers") && n >= 0 { // below 0: all
		add("--ngl", int(n))
	}
	if n := o.count("n_cpu_moe"); n > 0 {
		add("--n-cpu-moe", n)
	}
	if s := o.text("tensor_buft_overrides"); s != "" && s != "none" {
		add("--override-tensor", s)
	}
	if n := o.count("n_ubatch"); n > 0 {
		add("--ubatch", n)
	}
	if n := o.count("n_threads"); n > 0 {
		add("--threads", n)
	}
	if o.text("load_mode") == "mmap" || o.at("use_mmap") == true {
		add("--mmap")
	}
	if o.number("no_op_offload") > 0 || o.at("no_op_offload") == true {
		add("--no-op-offload")
	}
	if o.at("no_kv_offload") == true {
		add("--no-kv-offload")
	}
	return strings.TrimSpace(text)
}

// ggufFormat is the format in a model's type, as "llama 8B Q4_K - Medium"; "" for none.
func ggufFormat(text string) string {
	fields := strings.Fields(strings.ToLower(text))
	for i, f := range fields {
		switch {
		case f == "f16" || f == "bf16":
			return map[string]string{"f16": "fp16", "bf16": "bf16"}[f]
		case strings.HasPrefix(f, "q") && strings.Contains(f, "_") || strings.HasPrefix(f, "iq") || strings.HasPrefix(f, "mxfp"):
			if i+2 < len(fields) && fields[i+1] == "-" {
				f += "_" + fields[i+2][:1]
			}
			return f
		}
	}
	return ""
}
