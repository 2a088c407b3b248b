package reports

import "llmprof/validate"

// llmPerf is a summary of LLMPerf. What it calls the latency between tokens includes the first, so that it is no TPOT.
var llmPerf = tool{
	what: "a summary of LLMPerf",
	is:   func(o object) bool { return o.has("num_concurrent_requests", "results_ttft_s_quantiles_p50") },
	runs: func(records []object) (all []*Run, err error) {
		for _, o := range records {
			r := &Run{
				Model: o.text("model"), Clients: o.count("num_concurrent_requests"), Failed: o.count("results_number_errors"),
				Prompt: o.number("results_number_input_tokens_mean", "mean_input_tokens"),
				Gen:    o.number("results_number_output_tokens_mean", "mean_output_tokens"),
			}
			for m, name := range map[validate.Metric]string{validate.TTFT: "ttft_s", validate.TTLT: "end_to_end_latency_s"} {
				of := "results_" + name + "_quantiles_"
				r.set(m, figure{n: o.count("results_num_completed_requests"), p50: o.number(of + "p50"), p90: o.number(of + "p90"),
					p99: o.number(of + "p99")})
			}
			all = append(all, r)
		}
		return all, nil
	},
}

// llmPerfResponses are the individual responses of LLMPerf, which do not say how many requests were under way at a time.
var llmPerfResponses = tool{
	what: "the individual responses of LLMPerf",
	is:   func(o object) bool { return o.has("ttft_s", "end_to_end_latency_s", "number_output_tokens") },
	runs: func(records []object) ([]*Run, error) {
		r := &Run{Prompt: mean(each(records, 1, "number_input_tokens")), Gen: mean(each(records, 1, "number_output_tokens"))}
		first, whole, n := each(records, 1, "ttft_s"), each(records, 1, "end_to_end_latency_s"), each(records, 1, "number_output_tokens")
		tpots := make([]float64, len(n))
		for i := range n {
			tpots[i] = (whole[i] - first[i]) / (n[i] - 1)
		}
		r.sampled(validate.TTFT, first)
		r.sampled(validate.TPOT, tpots)
		r.sampled(validate.TTLT, whole)
		return []*Run{r}, nil
	},
}
