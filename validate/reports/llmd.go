package reports

import (
	"fmt"
	"strings"

	"llmprof/analytic/engine"
	"llmprof/validate"
)

// llmdReport is llm-d's Benchmark Report 0.2, in JSON or YAML: what was served, the load, and percentiles of the times.
var llmdReport = tool{
	what: "a Benchmark Report of llm-d",
	is:   func(o object) bool { return o.has("version", "scenario", "results.request_performance.aggregate") },
	runs: func(records []object) (all []*Run, err error) {
		for _, o := range records {
			if v := o.text("version"); !strings.HasPrefix(v, "0.2") {
				return nil, fmt.Errorf("its version is %.20q: want 0.2", v)
			}
			r, err := llmdRun(o)
			if err != nil {
				return nil, err
			}
			all = append(all, r)
		}
		return all, nil
	},
}

func llmdRun(o object) (*Run, error) {
	const load, of = "scenario.load.standardized.", "results.request_performance.aggregate."
	r := &Run{
		Clients: o.count(load + "concurrency"), Failed: o.count(of + "requests.failures"),
		Prompt: o.number(of+"requests.input_length.mean", load+"input_seq_len.value"),
		Gen:    o.number(of+"requests.output_length.mean", load+"output_seq_len.value"),
	}
	if r.Clients == 0 {
		r.Rate = o.number(load + "rate_qps")
	}
	for _, c := range o.list("scenario.stack") {
		if c.text("metadata.kind", "standardized.kind") != "inference_engine" {
			continue
		}
		r.Model, r.GPU = c.text("standardized.model.name"), strings.ReplaceAll(c.text("standardized.accelerator.model"), "-", " ")
		r.TP = c.count("standardized.accelerator.parallelism.tp")
		if e, err := engine.Parse(c.text("standardized.tool")); err == nil {
			r.Engine = e.Profile().Engine()
		}
	}
	for m, name := range map[validate.Metric]string{validate.TTFT: "time_to_first_token", validate.TPOT: "time_per_output_token",
		validate.TTLT: "request_latency"} {
		at := of + "latency." + name + "."
		if !o.has(of + "latency." + name) {
			continue
		}
		scale, err := scaleOf(o.text(at + "units"))
		if err != nil {
			return nil, err
		}
		r.set(m, figure{n: o.count(of+"requests.total") - r.Failed, p50: scale * o.number(at+"p50"), p90: scale * o.number(at+"p90"),
			p99: scale * o.number(at+"p99")})
	}
	return r, nil
}
