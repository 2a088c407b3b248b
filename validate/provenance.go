package validate

// A fit says that a constant of the theory was fitted on observations like
// those that it names; an empty field is any. Its constant has the key that
// package roofline gives it.
type fit struct {
	source, engine, mode, gpu, model string
	metric                           Metric
	batch, tp                        int // 0 for any
	constant                         string
}

// Constants of transformers were fitted on this model; these are their names.
const (
	llama   = "llama3.1-8b"
	launch  = "host.launch of transformers"
	graph   = "host.small_kernel and attention.copies of transformers in a graph"
	fixed   = "power.fixed"
	unfused = "element.unfused of transformers"
)

// fits lists the constants that were fitted on embedded observations, so that
// these are scored separately. A constant computed from times of single operators is
// not fitted here: no operator is an observation.
func fits() []fit {
	return []fit{
		{source: "h200", engine: "transformers", mode: "eager", model: llama, metric: TPOT, constant: launch},
		{source: "h200", engine: "transformers", mode: "eager", model: llama, metric: TTLT, constant: launch},
		{source: "h200", engine: "transformers", mode: "graph", model: llama, metric: TPOT, constant: graph},
		{source: "h200", engine: "transformers", mode: "graph", model: llama, metric: TTLT, constant: graph},
		{source: "h200", engine: "transformers", mode: "graph", model: llama, metric: EnergyPerToken, constant: fixed},
		{source: "h200", engine: "transformers", mode: "graph", model: llama, metric: EnergyPerRequest, constant: fixed},
		{source: "h200", engine: "transformers", model: llama, metric: TTFT, tp: 1, constant: unfused},
		{source: "h200", engine: "transformers", model: llama, metric: EnergyPerPrompt, tp: 1, constant: unfused},
		{source: "h200-vllm", model: "llama3.2-1b",
			constant: "host.async_step host.async_sequence host.request host.launch host.dispatch of vllm"},
		{source: "h100-vllm", model: "llama3.2-1b",
			constant: "host.async_step host.async_sequence host.request host.launch host.dispatch of vllm"},
		{source: "h200-vllm-fp8", model: "llama3.2-3b", metric: TPOT, constant: "host.async_sequence of vllm"},
		{source: "h100-vllm-fp8", model: "llama3.2-3b", metric: TPOT, constant: "host.async_sequence of vllm"},
		{source: "h100-llamacpp", model: llama,
			constant: "host.step host.small_kernel attention.compute attention.ramp attention.fixed " +
				"skinny_gemm.memory skinny_gemm.row of llama-cpp"},
		{source: "h100-llamacpp", model: "llama3.2-1b", constant: "host.launch host.request of llama-cpp"},
		{source: "h100-llamacpp", model: "qwen3-30b-a3b", metric: TPOT, batch: 32,
			constant: "element.compute of llama-cpp in the tiles of experts"},
		{source: "h200-llamacpp-host", metric: TTFT, constant: "weight_copy.share of llama-cpp"},
		{source: "h200-llamacpp-host", metric: TPOT, constant: "host_product.memory of llama-cpp"},
		{source: "elana", gpu: "agx-thor-128gb", metric: TPOT, constant: "gemm.memory of integrated modules"},
		{source: "elana", gpu: "agx-thor-128gb", metric: TTLT, constant: "gemm.memory of integrated modules"},
	}
}

// fitted is the constant that was fitted on an observation, empty if none was.
func fitted(o *Observation) string {
	for _, f := range fits() {
		if f.source == o.Source && wants(f.engine, o.Engine) && wants(f.mode, o.Mode) && wants(f.gpu, o.GPU) &&
			wants(f.model, o.Model) && wants(string(f.metric), string(o.Metric)) && (f.batch == 0 || f.batch == o.Batch) &&
			(f.tp == 0 || f.tp == o.TP) {
			return f.constant
		}
	}
	return ""
}

func wants(pattern, text string) bool { return pattern == "" || pattern == text }
