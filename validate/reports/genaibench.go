package reports

import "llmprof/validate"

// genAIBench is the result of a run of genai-bench, which has the times of each request.
var genAIBench = tool{
	what: "a result of genai-bench",
	is:   func(o object) bool { return o.has("aggregated_metrics.stats", "aggregated_metrics.num_concurrency") },
	runs: func(records []object) (all []*Run, err error) {
		for _, o := range records {
			r := &Run{
				Clients: o.count("aggregated_metrics.num_concurrency"), Failed: o.count("aggregated_metrics.num_error_requests"),
				Prompt: o.number("aggregated_metrics.stats.num_input_tokens.mean"), Gen: o.number("aggregated_metrics.stats.num_output_tokens.mean"),
			}
			scale := 1.0
			if o.text("aggregated_metrics.time_unit", "time_unit") == "ms" {
				scale = 1e-3
			}
			for m, name := range map[validate.Metric]string{validate.TTFT: "ttft", validate.TPOT: "tpot", validate.TTLT: "e2e_latency"} {
				of := "aggregated_metrics.stats." + name + "."
				r.set(m, figure{n: o.count("aggregated_metrics.num_completed_requests"), p50: scale * o.number(of+"p50"),
					p90: scale * o.number(of+"p90"), p99: scale * o.number(of+"p99")})
				r.sampled(m, each(o.list("individual_request_metrics"), scale, name))
			}
			all = append(all, r)
		}
		return all, nil
	},
}
