package reports

import (
	"errors"
	"math"
	"slices"

	"llmprof/validate"
)

// aiperfSummary is AIPerf's profile_export_aiperf.json.
var aiperfSummary = tool{
	what: "AIPerf's profile_export_aiperf.json",
	is:   func(o object) bool { return o.has("input_config", "request_latency") },
	runs: func(records []object) (all []*Run, err error) {
		for _, o := range records {
			r := &Run{
				Clients: o.count("input_config.loadgen.concurrency"), Rate: o.number("input_config.loadgen.request_rate"),
				Prompt: o.number("input_sequence_length.avg"), Gen: o.number("output_sequence_length.avg"),
				Failed: o.count("error_request_count.avg"),
			}
			for _, name := range append(texts(o.at("input_config.endpoint.model_names")), names(o.list("input_config.models.items"))...) {
				r.Model = name
			}
			for _, p := range o.list("input_config.phases") { // since 0.8; the last is what counts, those before warm up
				r.Clients, r.Rate = p.count("concurrency"), p.number("rate", "request_rate")
			}
			n := o.count("request_count.avg")
			for m, name := range map[validate.Metric]string{validate.TTFT: "time_to_first_token", validate.TPOT: "inter_token_latency",
				validate.TTLT: "request_latency"} {
				scale, err := scaleOf(o.text(name + ".unit"))
				if err != nil && o.has(name) {
					return nil, err
				}
				r.set(m, figure{n: n, p50: scale * o.number(name+".p50"), p90: scale * o.number(name+".p90"), p99: scale * o.number(name+".p99")})
			}
			all = append(all, r)
		}
		return all, nil
	},
}

func texts(value any) (all []string) {
	list, _ := value.([]any)
	for _, v := range list {
		if s, ok := v.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

func names(all []object) (out []string) {
	for _, o := range all {
		out = append(out, o.text("name"))
	}
	return out
}

// scaleOf is the seconds of a unit.
func scaleOf(unit string) (float64, error) {
	switch unit {
	case "s", "sec", "s/token", "seconds":
		return 1, nil
	case "ms", "ms/token", "milliseconds":
		return 1e-3, nil
	case "us", "us/token", "microseconds":
		return 1e-6, nil
	case "ns", "nanoseconds":
		return 1e-9, nil
	}
	return 0, errors.New("a time in the unit " + unit + ": want s, ms, us or ns")
}

// aiperfRequests is AIPerf's profile_export.jsonl: a request a line.
var aiperfRequests = tool{
	what: "AIPerf's profile_export.jsonl",
	is:   func(o object) bool { return o.has("metadata.request_start_ns", "metrics") },
	runs: func(records []object) ([]*Run, error) {
		failed := 0
		records = slices.DeleteFunc(records, func(o object) bool {
			bad := o.at("error") != nil || o.at("metadata.was_cancelled") == true
			if bad {
				failed++
			}
			return bad || o.text("metadata.benchmark_phase") == "warmup"
		})
		if len(records) == 0 {
			return nil, nil
		}
		r := &Run{
			Prompt:  mean(each(records, 1, "metrics.input_sequence_length.value")),
			Gen:     mean(each(records, 1, "metrics.output_sequence_length.value")),
			Clients: mostConcurrent(each(records, 1, "metadata.request_start_ns"), each(records, 1, "metadata.request_end_ns")), Failed: failed,
		}
		for m, name := range map[validate.Metric]string{validate.TTFT: "time_to_first_token", validate.TPOT: "inter_token_latency",
			validate.TTLT: "request_latency"} {
			times := make([]float64, len(records))
			for i, o := range records {
				scale, err := scaleOf(o.text("metrics." + name + ".unit"))
				if times[i] = scale * o.number("metrics."+name+".value"); err != nil {
					times[i] = math.NaN()
				}
			}
			r.sampled(m, times)
		}
		return []*Run{r}, nil
	},
}
