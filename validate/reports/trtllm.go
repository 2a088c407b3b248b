package reports

import (
	"cmp"
	"math"

	"llmprof/validate"
)

// trtllmBench is the --report_json of trtllm-bench. Percentiles of TTFT and TPOT are there with --streaming alone. It has the mean of the
// requests under way, which of a closed loop is next to the clients.
var trtllmBench = tool{
	what: "a report of trtllm-bench",
	is:   func(o object) bool { return o.has("engine", "world_info", "request_info", "performance") },
	runs: func(records []object) (all []*Run, err error) {
		for _, o := range records {
			r := &Run{
				Engine: "tensorrt-llm", Model: o.text("engine.model"), GPU: o.text("machine.name"),
				TP: o.count("world_info.tp_size"), Clients: int(math.Round(o.number("request_info.avg_num_concurrent_requests"))),
				Prompt: o.number("request_info.avg_input_length"), Gen: o.number("request_info.avg_output_length"),
			}
			if v := o.text("engine.version"); v != "" {
				r.Release = v
			}
			r.Weights = cmp.Or(map[string]string{"FP8": "fp8", "NVFP4": "nvfp4", "FP8_BLOCK_SCALES": "fp8-block"}[o.text("engine.quantization")],
				map[string]string{"bfloat16": "bf16", "float16": "fp16"}[o.text("engine.dtype")])
			if r.Clients < 1 {
				r.Clients = 1
			}
			for m, of := range map[validate.Metric]string{validate.TTFT: "streaming_metrics.ttft_percentiles.",
				validate.TPOT: "streaming_metrics.tpot_percentiles.", validate.TTLT: "performance.request_latency_percentiles_ms."} {
				r.set(m, figure{n: o.count("request_info.num_requests"), p50: o.number(of+"p50") / 1e3, p90: o.number(of+"p90") / 1e3,
					p99: o.number(of+"p99") / 1e3})
			}
			all = append(all, r)
		}
		return all, nil
	},
}
