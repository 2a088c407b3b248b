package served

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"llmprof/measure/result"
	"llmprof/unit"
)

// engineOf is the engine that a server is simulated as: what does not say its kind schedules as vLLM does.
func engineOf(d *result.Result) string {
	switch kind := d.Engine.Options["server"]; kind {
	case "vllm", "sglang":
		return kind
	case "llama.cpp":
		return "llamacpp"
	}
	return "vllm"
}

// FromResult is the run of a result of llmprof measure --engine openai, on GPUs of a kind that the client
// need not have seen. Requests that failed are an error: what they took from the server is not known.
func FromResult(name string, d *result.Result, gpu string) (*Run, error) {
	s := d.Serving
	switch {
	case s == nil:
		return nil, fmt.Errorf("%s: no server was asked: want a result of llmprof measure --engine openai", name)
	case s.Completed < len(s.Records) || s.Completed == 0:
		return nil, fmt.Errorf("%s: %d of %d requests were completed: a run is compared whole", name, s.Completed, len(s.Records))
	}
	r := &Run{
		Name: name, Model: d.Model.Name, Engine: engineOf(d), Weights: cmp.Or(d.Workload.Weights, d.Engine.Options["quantization"]), GPU: gpu, Concurrency: s.Concurrency,
		Source: fmt.Sprintf("%s %s: %s", d.Engine.Options["server"], d.Engine.Version, name),
	}
	p := &d.Parallelism
	r.TP, r.DP, r.EP = max(p.TP, 1), max(p.DP, 1), max(p.EP, 1)
	if s.RateHz != nil {
		r.Rate, r.Concurrency = *s.RateHz, 0
	}
	r.CacheTokens, _ = strconv.Atoi(d.Engine.Options["kv_cache_size_tokens"])
	if c := s.PrefixCache; c != nil && c.Share != nil {
		r.HitRate = *c.Share
	}
	for i := range s.Records {
		q := &s.Records[i]
		if q.Prompt == nil || q.Generated == nil || *q.Prompt < 1 || *q.Generated < 1 || q.FirstTokenS == nil || q.LastTokenS == nil {
			return nil, fmt.Errorf("%s: request %d has no count of its tokens, or none", name, q.Index)
		}
		r.Requests = append(r.Requests, Request{
			At: unit.Seconds(q.SentS), Prompt: *q.Prompt, Gen: *q.Generated, TTFT: unit.Seconds(*q.FirstTokenS), E2E: unit.Seconds(*q.LastTokenS),
		})
	}
	slices.SortStableFunc(r.Requests, func(a, b Request) int { return cmp.Compare(a.At, b.At) })
	return r, nil
}
