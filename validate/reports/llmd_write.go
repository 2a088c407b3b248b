package reports

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"llmprof/internal/stats"
	"llmprof/measure/result"
)

type (
	dict  = map[string]any
	items = []any
)

// LLMD is the result of a server's requests as a Benchmark Report 0.2.1 of llm-d.
func LLMD(r *result.Result) (any, error) {
	s := r.Serving
	if s == nil {
		return nil, errors.New("a Benchmark Report of llm-d is of a server's requests, and this result is of an engine that is asked for nothing")
	}
	name, gpu := cmp.Or(r.Engine.Options["server"], r.Engine.Name), "unknown"
	if s.Metrics != nil && r.Engine.Options["server"] == "" {
		name = cmp.Or(s.Metrics.Source, name)
	}
	if len(r.Machine.GPUs) > 0 {
		gpu = cmp.Or(r.Machine.GPUs[0].Key, r.Machine.GPUs[0].Name)
	}
	par := dict{"tp": max(r.Parallelism.TP, 1), "pp": max(r.Parallelism.PP, 1), "ep": max(r.Parallelism.EP, 1), "dp": max(r.Parallelism.DP, 1)}
	id := cmp.Or(r.Provenance.Hash, r.ID, "unknown")
	load := dict{
		"tool": "llmprof", "tool_version": cmp.Or(r.Provenance.Version, "unknown"), "source": "sampled",
		"input_seq_len": length(s.PromptTokens, r.Workload.PromptLen), "output_seq_len": length(s.GeneratedTokens, r.Workload.GenLen),
	}
	if r.Workload.Prompts == "random" {
		load["source"] = "random"
	}
	if s.RateHz != nil {
		load["rate_qps"] = *s.RateHz
	}
	if s.Concurrency > 0 {
		load["concurrency"] = s.Concurrency
	}
	native := dict{"args": nil, "envars": nil, "config": nil}
	return dict{
		"version": "0.2.1",
		"run": dict{"uid": cmp.Or(r.ID, id), "eid": id, "time": dict{
			"start": r.Started.UTC().Format(time.RFC3339), "end": r.Ended.UTC().Format(time.RFC3339), "duration": fmt.Sprintf("PT%.6fS", s.Duration),
		}},
		"scenario": dict{
			"stack": items{dict{
				"metadata": dict{"schema_version": "0.0.1", "label": name, "cfg_id": id},
				"standardized": dict{
					"kind": "inference_engine", "tool": name, "tool_version": cmp.Or(r.Engine.Version, "unknown"), "role": "replica",
					"replicas":    max(r.Parallelism.Replicas, 1),
					"model":       dict{"name": r.Model.Name},
					"accelerator": dict{"model": gpu, "count": max(len(r.Machine.GPUs), max(r.Parallelism.TP, 1)), "parallelism": par},
				},
				"native": native,
			}},
			"load": dict{"metadata": dict{"schema_version": "0.0.1", "cfg_id": id, "description": "llmprof"}, "standardized": load,
				"native": native},
		},
		"results": dict{"request_performance": dict{"aggregate": performance(r)}},
	}, nil
}

// performance is what the clients of a server saw.
func performance(r *result.Result) dict {
	s := r.Serving
	requests := dict{"total": s.Requests, "failures": s.Requests - s.Completed}
	add := func(to dict, key, unit string, of *stats.Summary) {
		if of != nil && of.N > 0 {
			to[key] = statistics(unit, of)
		}
	}
	add(requests, "input_length", "count", s.PromptTokens)
	add(requests, "output_length", "count", s.GeneratedTokens)
	latency := dict{}
	for _, t := range []struct {
		key, unit string
		times     *result.Times
	}{{"time_to_first_token", "s", r.TTFT}, {"time_per_output_token", "s/token", r.TPOT}, {"inter_token_latency", "s/token", s.ChunkGap},
		{"request_latency", "s", r.TTLT}} {
		if t.times != nil {
			add(latency, t.key, t.unit, &t.times.Summary)
		}
	}
	throughput := dict{"request_rate": dict{"units": "queries/s", "mean": s.RequestRate}}
	if r.Throughput != nil && r.Throughput.Generated != nil {
		throughput["output_token_rate"] = dict{"units": "tokens/s", "mean": *r.Throughput.Generated}
	}
	return dict{"requests": requests, "latency": latency, "throughput": throughput}
}

func statistics(unit string, s *stats.Summary) dict {
	d := dict{"units": unit, "mean": s.Mean, "min": s.Min, "p5": s.P5, "p25": s.P25, "p50": s.Median, "p75": s.P75, "p90": s.P90, "p95": s.P95,
		"p99": s.P99, "max": s.Max}
	if s.StdDev != nil {
		d["stddev"] = *s.StdDev
	}
	return d
}

// length is the distribution of tokens, by the server's count where it has one.
func length(counted *stats.Summary, requested int) dict {
	if counted == nil || counted.Min == counted.Max {
		return dict{"distribution": "fixed", "value": max(requested, 1)}
	}
	return dict{"distribution": "other", "value": max(counted.Mean, 1), "min": int(counted.Min), "max": int(counted.Max)}
}
