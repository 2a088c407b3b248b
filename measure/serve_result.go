package measure

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"llmprof/measure/engine"
	"llmprof/measure/engine/openai"
	"llmprof/measure/experiment"
	"llmprof/measure/result"
	"llmprof/workload"
)

// measure asks the server, with the meters around the requests that count.
func (b *benchmark) measure(ctx context.Context) (*result.Result, error) {
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	r := b.blank()
	stop := b.report(ctx)
	s, err := openai.Run(ctx, b.asks, b.asked.count)
	stop()
	if b.looked != nil {
		looked(r, engine.Request, b.looked)
	}
	if s == nil || s.Completed == 0 {
		return nil, b.named(err)
	}
	if b.unwritten != nil {
		return nil, fmt.Errorf("the requests could not be written: %w", b.unwritten)
	}
	r.Serving = s
	if b.decided != "" {
		r.Engine.Notes = append(r.Engine.Notes, b.decided)
	}
	r.TTFT, r.TPOT, r.TTLT = openai.Times(s)
	r.Warnings = append(r.Warnings, s.Notes...)
	if x := s.Steady; x != nil && !x.Reached {
		r.Marks = append(r.Marks, "unsteady") // a note of the requests says why
	}
	b.counts(r)
	if err != nil {
		r.Reasons["energy"] = "the run stopped before its last request"
		return r, err
	}
	if err := b.energy(ctx, r); err != nil {
		return r, err
	}
	if err := b.control(ctx, r); err != nil && ctx.Err() == nil {
		warn(r, "", "whether the server answered from a cache of prefixes is not known: %v", err)
	}
	return r, nil
}

// blank is a result before the first request.
func (b *benchmark) blank() *result.Result {
	p := b.point
	r := &result.Result{
		Schema: result.Schema, Processes: 1, Started: time.Now(),
		Model: result.Model{Name: p.Model},
		Engine: result.Engine{
			Name: p.Engine, Version: b.about.Version, Versions: map[string]string{}, Options: b.about.Options,
			Timer: "client clock, from when a request is begun (in an open loop: due) to the arrival of chunks",
		},
		Parallelism: result.Parallelism{Replicas: p.Replicas},
		Workload:    result.Workload{Workload: workload.Workload{PromptLen: p.PromptLen, GenLen: p.GenLen}, Prompts: p.Prompts, Seed: b.seed, Temperature: p.Temperature},
		Reasons: map[string]string{
			"step_s": "a server does not say its steps", "sizes_bytes": "a server does not say what it holds",
			"operators": "a server does not say its operators",
		},
	}
	if m := b.model; m != nil {
		r.Model = result.Model{Name: m.Name, Source: m.Source, Family: m.Family, ParamsTotal: m.Params()}
	}
	if b.about.Kind != "" {
		r.Engine.Options["server"] = b.about.Kind
		r.Engine.Versions[b.about.Kind] = b.about.Version
	}
	if b.counted != "" {
		r.Engine.Options["prompts_counted_by"] = b.counted
	}
	b.deployment(r)
	return r
}

// deployment is how the server runs the model: as was given, or as it says. What
// neither knows is null.
func (b *benchmark) deployment(r *result.Result) {
	p, a := b.point, b.about
	w, par := &r.Workload, &r.Parallelism
	w.Weights, w.KV = cmp.Or(p.ServedWeights, a.Weights), cmp.Or(p.ServedKV, a.KV)
	if w.Weights == "bf16" || w.Weights == "fp16" || w.Weights == "fp32" {
		w.Act = w.Weights
	}
	par.TP, par.DP = cmp.Or(p.ServedTP, a.TP), a.DP
	if shown := b.meters.shares(p)[0]; p.EngineCmd != "" && len(shown) == 1 && par.TP == 0 {
		par.TP = 1 // the server sees no other GPU
	}
	if p.RequestRate == 0 && p.Load == "" && b.asks.Concurrency == 1 {
		w.Batch = 1
	}
	const unsaid = "the server does not say it; give "
	for key, why := range map[string]struct {
		known bool
		why   string
	}{
		"workload.weights": {w.Weights != "", unsaid + "--served-weights"}, "workload.kv": {w.KV != "", unsaid + "--served-kv"},
		"workload.act":   {w.Act != "", "the server does not say what it computes in"},
		"parallelism.tp": {par.TP != 0, unsaid + "--served-tp"},
		"workload.batch": {w.Batch != 0, "a server makes its own batches: serving.server_metrics has the requests that ran, where it says them"},
	} {
		if !why.known {
			r.Reasons[key] = why.why
		}
	}
}

// counts fill in what follows from the server's usage: real lengths, and tokens a
// second.
func (b *benchmark) counts(r *result.Result) {
	s := r.Serving
	if n := s.PromptTokens; n != nil {
		r.Workload.PromptLen = max(int(math.Round(n.Mean)), 1)
		if asked := s.PromptAsked; asked > 0 && r.Workload.PromptLen != asked {
			warn(r, "", "prompts have %.0f to %.0f tokens by the server's count, %.1f in the mean; %d were asked for", n.Min, n.Max, n.Mean, asked)
		}
	} else {
		warn(r, "", "the server does not count the tokens of prompts: their length is as asked for, and not checked")
	}
	switch u := s.Usage; {
	case u == nil || s.Duration <= 0:
	case u.Missing > 0:
		r.Reasons["throughput_tok_s"] = fmt.Sprintf("%d of %d answers came without usage: how many tokens they have is not known", u.Missing, s.Completed)
	default:
		r.Throughput = &result.Rates{Generated: new(float64(*u.Tokens) / s.Duration)}
	}
	if r.TPOT == nil && r.Workload.GenLen > 1 {
		r.Reasons["tpot_s"] = "no answer came in several parts over time with a count of its tokens"
	}
	if m := s.Metrics; m != nil && m.Running != nil && s.Arrivals == "closed" && m.Running.Max > float64(s.Concurrency) {
		warn(r, "contaminated", "the server ran up to %.0f requests at a time, of which %d can be this client's", m.Running.Max, s.Concurrency)
	}
}

// Marks of a server's result that does not count as done, or not in full.
const (
	someFailed  = "failures"    // some requests failed, no more than may
	tooMany     = "failed"      // more requests failed than may
	interrupted = "interrupted" // the run was stopped before its last request
)

// judge marks what servers' results hold of failures. Those of a run that stopped
// early, or in which more requests failed than may, come back beside an error: they
// are no finished run's.
func judge(ctx context.Context, p *experiment.Point, results []*result.Result, err error) ([]*result.Result, error) {
	stopped := err
	for _, r := range results {
		s := r.Serving
		switch {
		case s == nil:
			continue
		case stopped != nil && ctx.Err() != nil:
			warn(r, interrupted, "%v", stopped)
		case stopped != nil:
			warn(r, tooMany, "%v", stopped)
		}
		failed := s.Requests - s.Completed
		if failed == 0 {
			continue
		}
		text := fmt.Sprintf("%d of %d requests failed: %s", failed, s.Requests, failuresOf(s))
		share, allowed := float64(failed)/float64(s.Requests), p.FailuresAllowed()
		if share <= allowed {
			warn(r, someFailed, "%s", text)
			continue
		}
		warn(r, tooMany, "%s", text)
		if err == nil {
			err = fmt.Errorf("%s; that is %.3g %%, and %.3g %% may fail (--max-failures)", text, 100*share, 100*allowed)
		}
	}
	return results, err
}

// failuresOf lists the kinds of failure, the commonest first, with the first words
// that came with each.
func failuresOf(s *result.Serving) string {
	words := map[string]string{}
	for i := range s.Records {
		if r := &s.Records[i]; r.Failure != "" && words[r.Failure] == "" {
			words[r.Failure] = r.Error
		}
	}
	kinds := slices.Collect(maps.Keys(s.Failures))
	slices.SortFunc(kinds, func(a, b string) int { return cmp.Or(s.Failures[b]-s.Failures[a], strings.Compare(a, b)) })
	var parts []string
	for _, kind := range kinds {
		part := fmt.Sprintf("%d %s", s.Failures[kind], strings.ReplaceAll(kind, "_", " "))
		if w := words[kind]; w != "" {
			part += " (" + w + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}
