package reports

import (
	"math"
	"strings"

	"llmprof/analytic/engine"
	"llmprof/validate"
)

// vllmBench is what vllm bench serve writes with --save-result, and appends with --append-result. With --save-detailed it has the times of
// each request.
var vllmBench = tool{
	what: "the result of vllm bench serve",
	is:   func(o object) bool { return o.has("model_id", "request_throughput", "total_input_tokens") },
	runs: func(records []object) (all []*Run, err error) {
		for _, o := range records {
			r := benchmarkRun(o)
			r.Model = o.text("model_id")
			r.set(validate.TTLT, milliseconds(o, "e2el"))
			all = append(all, r)
		}
		return all, nil
	},
}

// sglangBench is what python -m sglang.bench_serving appends to its --output-file. With --output-details it has the times of each request.
var sglangBench = tool{
	what: "the result of sglang.bench_serving",
	is:   func(o object) bool { return o.has("backend", "request_throughput", "total_output_tokens_retokenized") },
	runs: func(records []object) (all []*Run, err error) {
		for _, o := range records {
			r := benchmarkRun(o)
			r.Model = o.text("server_info.model_path", "server_info.served_model_name")
			r.TP = o.count("server_info.tp_size")
			r.set(validate.TTLT, milliseconds(o, "e2e_latency"))
			all = append(all, r)
		}
		return all, nil
	},
}

// benchmarkRun reads what the benchmarks of vLLM and SGLang, of one origin, have in common.
func benchmarkRun(o object) *Run {
	n := math.Max(o.number("completed"), 1)
	r := &Run{
		Clients: o.count("max_concurrency"), Rate: o.number("request_rate"), Failed: o.count("failed"),
		Prompt: o.number("total_input_tokens") / n, Gen: o.number("total_output_tokens") / n,
	}
	if name := strings.TrimSuffix(strings.TrimSuffix(o.text("backend"), "-chat"), "-oai"); name != "" {
		if e, err := engine.Parse(name); err == nil {
			r.Engine = e.Profile().Engine()
		}
	}
	r.set(validate.TTFT, milliseconds(o, "ttft"))
	r.set(validate.TPOT, milliseconds(o, "tpot"))
	r.details(o)
	return r
}

// milliseconds is a time of which a benchmark gives the median, and at choice percentiles.
func milliseconds(o object, name string) figure {
	return figure{n: o.count("completed"), p50: o.number("median_"+name+"_ms") / 1e3, p90: o.number("p90_"+name+"_ms") / 1e3,
		p99: o.number("p99_"+name+"_ms") / 1e3}
}

// details takes the times of each request that has an answer, where they are there.
func (r *Run) details(o object) {
	ttfts, outputs := o.numbers("ttfts"), o.numbers("output_lens")
	itls, _ := o.at("itls").([]any)
	if len(ttfts) == 0 || len(ttfts) != len(outputs) {
		return
	}
	first := make([]float64, 0, len(ttfts))
	var tpots, whole []float64
	for i, t := range ttfts {
		if !(outputs[i] > 0) || !(t > 0) {
			continue
		}
		first = append(first, t)
		if i >= len(itls) {
			continue
		}
		decoding := 0.0
		for _, gap := range (object{"gaps": itls[i]}).numbers("gaps") {
			decoding += gap
		}
		whole = append(whole, t+decoding)
		if outputs[i] > 1 {
			tpots = append(tpots, decoding/(outputs[i]-1))
		}
	}
	r.sampled(validate.TTFT, first)
	r.sampled(validate.TPOT, tpots)
	r.sampled(validate.TTLT, whole)
}
