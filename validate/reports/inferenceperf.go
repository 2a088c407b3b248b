package reports

import "llmprof/validate"

// inferencePerfRequests are the requests of inference-perf (per_request_lifecycle_metrics.json), of which release 0.7 has the tokens one
// level deeper than those before it.
var inferencePerfRequests = tool{
	what: "the requests of inference-perf",
	is:   func(o object) bool { return o.has("start_time", "end_time", "info") },
	runs: func(records []object) ([]*Run, error) {
		r := &Run{}
		var begins, ends, prompts, outputs, first, tpots []float64
		for _, o := range records {
			if o.at("error") != nil {
				r.Failed++
				continue
			}
			begin, end := o.number("start_time"), o.number("end_time")
			n := o.number("info.response_metrics.server_usage.completion_tokens", "info.response_metrics.output_tokens", "info.output_tokens")
			begins, ends, outputs = append(begins, begin), append(ends, end), append(outputs, n)
			prompts = append(prompts, o.number("info.request_metrics.text.input_tokens", "info.input_tokens"))
			times := o.numbers("info.response_metrics.output_token_times")
			if times == nil {
				times = o.numbers("info.output_token_times")
			}
			if len(times) > 0 {
				first = append(first, times[0]-begin)
			}
			if len(times) > 1 {
				tpots = append(tpots, (times[len(times)-1]-times[0])/(n-1))
			}
		}
		if len(begins) == 0 {
			return nil, nil
		}
		whole := make([]float64, len(begins))
		for i := range whole {
			whole[i] = ends[i] - begins[i]
		}
		r.Prompt, r.Gen, r.Clients = mean(prompts), mean(outputs), mostConcurrent(begins, ends)
		r.sampled(validate.TTFT, first)
		r.sampled(validate.TPOT, tpots)
		r.sampled(validate.TTLT, whole)
		return []*Run{r}, nil
	},
}

// inferencePerf is a summary of inference-perf, of the whole run or of a stage, whose time per output token is without the first.
var inferencePerf = tool{
	what: "a summary of inference-perf",
	is:   func(o object) bool { return o.has("load_summary", "successes.latency") },
	runs: func(records []object) (all []*Run, err error) {
		for _, o := range records {
			r := &Run{
				Clients: o.count("load_summary.concurrency"), Failed: o.count("failures.count"),
				Prompt: o.number("successes.prompt_tokens.distribution.mean", "successes.prompt_tokens.mean", "successes.prompt_len.mean"),
				Gen:    o.number("successes.output_len.mean"),
			}
			if r.Clients == 0 {
				r.Rate = o.number("load_summary.requested_rate", "load_summary.achieved_rate")
			}
			for m, name := range map[validate.Metric]string{validate.TTFT: "time_to_first_token", validate.TPOT: "time_per_output_token",
				validate.TTLT: "request_latency"} {
				of := "successes.latency." + name + "."
				r.set(m, figure{n: o.count("successes.count"), p50: o.number(of + "median"), p90: o.number(of + "p90"), p99: o.number(of + "p99")})
			}
			all = append(all, r)
		}
		return all, nil
	},
}
