package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/view"
	"llmprof/serving"
)

// A steadyLoad is a load whose steady state an estimate is asked for.
type steadyLoad struct {
	rates       []float64
	concurrency int
	service
}

// flags adds the flags of a load and of the server that answers it.
func (l *steadyLoad) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(ratesFlag{&l.rates}, "rate", "steady state with so many requests a `second`, Poisson arrivals")
	f.IntVar(&l.concurrency, "concurrency", 0, "steady state with so many `clients` that each have one request at a time")
	l.flagsOfServer(cmd)
}

// steady adds the steady state under the load that was asked for.
func (a *app) steady(ctx context.Context, q *question, ans *answer) error {
	l := q.load
	rate, clients := q.given("rate"), q.given("concurrency")
	switch {
	case !rate && !clients:
		return l.unused(q.given)
	case rate && clients || len(l.rates) > 1:
		return usage("which load? Give one --rate or one --concurrency; llmprof simulate takes several")
	case q.given("batch"):
		return usage("--batch %d: under a load the batch is what comes of it; leave out --batch", q.workload.Batch)
	case q.given("chunk"):
		return usage("--chunk: under a load steps have --max-num-batched-tokens")
	}
	for _, name := range []string{"routing", "kv-offload", "preemption", "watermark", "no-prefix-cache", "prefill-replicas", "kv-link"} {
		if q.given(name) {
			return usage("--%s has no closed form: llmprof simulate takes it", name)
		}
	}
	server, err := a.server(ctx, &l.service, ans)
	if err != nil {
		return err
	}
	if w := &ans.Workload; w.CachedPrefix > 0 {
		if l.hitRate > 0 {
			return usage("--cached-prefix and --prefix-hit-rate say the same: give one")
		}
		server.HitRate = float64(w.CachedPrefix) / float64(w.Prompt)
	}
	prompt, gen := serving.Fixed(q.workload.Prompt), serving.Fixed(q.workload.Gen)
	load := &view.Load{Server: server}
	if rate {
		load.Rate = &l.rates[0]
		load.Steady, err = server.SteadyRate(l.rates[0], prompt, gen)
	} else {
		load.Concurrency = &l.concurrency
		load.Steady, err = server.SteadyConcurrency(l.concurrency, prompt, gen)
	}
	ans.Load = load
	return err
}

// unused refuses flags of a server where there is no load.
func (l *steadyLoad) unused(given func(string) bool) error {
	var server cobra.Command
	new(service).flagsOfServer(&server)
	var err error
	server.Flags().VisitAll(func(f *pflag.Flag) {
		if given(f.Name) {
			err = usage("--%s is of a server under load: give --rate or --concurrency too", f.Name)
		}
	})
	return err
}
