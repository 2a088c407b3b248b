package ask

import (
	"context"

	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/view"
	"llmprof/plan"
	"llmprof/serving"
)

// A SteadyLoad is a load whose steady state an estimate is asked for.
type SteadyLoad struct {
	rates       []float64
	concurrency int
	Service
}

// Flags adds the flags of a load and of the server that answers it.
func (l *SteadyLoad) Flags(f *pflag.FlagSet) {
	f.Var(RatesFlag{Rates: &l.rates}, "rate", "steady state with so many requests a `second`, Poisson arrivals")
	f.IntVar(&l.concurrency, "concurrency", 0, "steady state with so many `clients` that each have one request at a time")
	l.Service.Flags(f)
}

// Answer adds the steady state under the load that was asked for.
func (l *SteadyLoad) Answer(ctx context.Context, from Sources, ans *Answer) error {
	q := ans.Q
	rate, clients := q.Given("rate"), q.Given("concurrency")
	switch {
	case !rate && !clients:
		return l.unused(q.Given)
	case rate && clients || len(l.rates) > 1:
		return Usage("which load? Give one --rate or one --concurrency; llmprof simulate takes several")
	case clients && l.concurrency < 1:
		return Usage("--concurrency %d: want at least 1", l.concurrency)
	case q.Given("batch"):
		return Usage("--batch %d: under a load the batch is what comes of it; leave out --batch", q.Workload.Batch)
	case q.Given("chunk"):
		return Usage("--chunk: under a load steps have --max-num-batched-tokens")
	}
	for _, name := range []string{"routing", "kv-offload", "preemption", "watermark", "no-prefix-cache"} {
		if q.Given(name) {
			return Usage("--%s has no closed form: llmprof simulate takes it", name)
		}
	}
	server, err := l.Server(ctx, from, ans)
	if err != nil {
		return err
	}
	if w := &ans.Workload; w.CachedPrefix > 0 {
		if l.hitRate > 0 {
			return Usage("--cached-prefix and --prefix-hit-rate say the same: give one")
		}
		server.HitRate = float64(w.CachedPrefix) / float64(w.PromptLen)
	}
	prompt, gen := serving.Fixed(q.Workload.PromptLen), serving.Fixed(q.Workload.GenLen)
	load := &view.Load{Server: server}
	if rate {
		load.Rate = &l.rates[0]
		var all *serving.Steadies
		if all, err = server.Steadies(prompt, gen); err == nil {
			layout := serving.Layout{Replicas: server.Replicas, Prefillers: server.Prefillers, Link: server.Link}
			load.Steady, err = all.Rate(l.rates[0], layout)
			load.High, _ = plan.SlowRate(all, l.rates[0], layout, plan.Slower(&ans.Estimate.Estimate)) // none where the slow end is not stable
		}
	} else {
		load.Concurrency = &l.concurrency
		load.Steady, err = server.SteadyConcurrency(l.concurrency, prompt, gen)
	}
	ans.Load = load
	return err
}

// unused refuses flags of a server where there is no load.
func (l *SteadyLoad) unused(given func(string) bool) error {
	var server pflag.FlagSet
	new(Service).Flags(&server)
	var err error
	server.VisitAll(func(f *pflag.Flag) {
		if given(f.Name) {
			err = Usage("--%s is of a server under load: give --rate or --concurrency too", f.Name)
		}
	})
	return err
}
