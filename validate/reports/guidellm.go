package reports

import (
	"cmp"

	"llmprof/validate"
)

// guideLLM is the report of GuideLLM, whose inter-token latency is the TPOT of a request; what it calls the time per output token includes
// the first. Files before version 0.4 have other names for a strategy's figures.
var guideLLM = tool{
	what: "a report of GuideLLM",
	is:   func(o object) bool { return len(o.list("benchmarks")) > 0 },
	runs: func(records []object) (all []*Run, err error) {
		for _, report := range records {
			for _, b := range report.list("benchmarks") {
				all = append(all, guideLLMRun(report, b))
			}
		}
		return all, nil
	},
}

func guideLLMRun(report, b object) *Run {
	strategy, _ := b.at("config.strategy").(map[string]any)
	if strategy == nil {
		strategy, _ = b.at("args.strategy").(map[string]any)
	}
	s, done := object(strategy), b.list("requests.successful")
	r := &Run{
		Model: cmp.Or(report.text("config.backend.model", "args.model"), b.text("config.backend.model")),
		Rate:  s.number("rate"), Clients: s.count("streams"), Failed: len(b.list("requests.errored")),
		Prompt: b.number("metrics.prompt_token_count.successful.mean"), Gen: b.number("metrics.output_token_count.successful.mean"),
	}
	if s.text("type_") == "synchronous" {
		r.Clients = 1
	}
	if r.Clients == 0 && len(done) > 0 {
		r.Clients = mostConcurrent(each(done, 1, "request_start_time", "start_time"), each(done, 1, "request_end_time", "end_time"))
	}
	for m, x := range map[validate.Metric]struct {
		name  string
		scale float64
	}{
		validate.TTFT: {"time_to_first_token_ms", 1e-3}, validate.TPOT: {"inter_token_latency_ms", 1e-3}, validate.TTLT: {"request_latency", 1},
	} {
		of := "metrics." + x.name + ".successful."
		r.set(m, figure{n: b.count(of + "count"), p50: x.scale * b.number(of+"percentiles.p50", of+"median"),
			p90: x.scale * b.number(of+"percentiles.p90"), p99: x.scale * b.number(of+"percentiles.p99")})
		r.sampled(m, each(done, x.scale, x.name))
	}
	if len(done) > 0 {
		r.Prompt, r.Gen = mean(each(done, 1, "prompt_tokens")), mean(each(done, 1, "output_tokens"))
	}
	return r
}
