package ask

import (
	"context"
	"math"

	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/view"
	"llmprof/plan"
	"llmprof/serving"
)

// A SteadyLoad is a load whose steady state an estimate is asked for.
type SteadyLoad struct {
	rates       []float64
	concurrency int
	Prompt, Gen serving.Lengths // lengths of requests where they differ; else zero, for those of the workload
	Service
}

// Flags adds the flags of a load and of the server that answers it.
func (l *SteadyLoad) Flags(f *pflag.FlagSet) {
	l.loadFlags(f)
	l.Service.Flags(f)
}

func (l *SteadyLoad) loadFlags(f *pflag.FlagSet) {
	f.Var(RatesFlag(&l.rates, nil), "rate", "steady state with so many `requests` a second, Poisson arrivals")
	f.IntVar(&l.concurrency, "concurrency", 0, "steady state with so many `clients` that each have one request at a time")
}

// goTogether refuses flags that contradict those of a load, or have no meaning without one.
func goTogether(given func(string) bool) error {
	rate, clients := given("rate"), given("concurrency")
	switch {
	case !rate && !clients:
		return unused(given)
	case rate && clients:
		return Usage("which load? Give one of --rate and --concurrency")
	case given("batch"):
		return Usage("--batch: under a load the batch is what comes of it; leave out --batch")
	case given("chunk"):
		return Usage("--chunk: under a load steps have --max-num-batched-tokens")
	}
	return closedForm(given)
}

// closedForm refuses flags whose effect has none.
func closedForm(given func(string) bool) error {
	return Refuse(given, []string{"routing", "kv-offload", "preemption", "watermark", "no-prefix-cache"},
		"--%s has no closed form: llmprof simulate takes it")
}

// LeaveBatch makes the batch the least that can be where a load is asked for: nobody chooses it then.
func (q *Question) LeaveBatch() {
	if (q.Given("rate") || q.Given("concurrency")) && !q.Given("batch") {
		q.Workload.Batch = max(q.Parallel.MicroBatches, 1)
	}
}

// Answer adds the steady state under the load that was asked for.
func (l *SteadyLoad) Answer(ctx context.Context, from Sources, ans *Answer) error {
	q := ans.Q
	if err := l.Check(q); err != nil {
		return err
	}
	rate, clients := q.Given("rate"), q.Given("concurrency")
	if !rate && !clients {
		return nil
	}
	all, err := l.Rates(ctx, from, ans)
	if err != nil {
		return err
	}
	if ans.Load, err = l.Of(all); err != nil {
		return err
	}
	if said := l.Warning(ans.Load); said != "" {
		ans.Warnings = append(ans.Warnings, said)
	}
	return nil
}

// Warning says where the figures of a steady state are uncertain; "" for none. Clients hold no more requests than they are.
func (l *SteadyLoad) Warning(load *view.Load) string {
	if len(l.rates) == 0 {
		return ""
	}
	return load.Steady.Warning()
}

// Of is the steady state of a server under the load.
func (l *SteadyLoad) Of(all *Rates) (*view.Load, error) {
	if len(l.rates) > 0 {
		return all.At(l.rates[0])
	}
	return all.clients(l.concurrency)
}

// Check refuses flags that contradict those of the load, and loads that have no steady state.
func (l *SteadyLoad) Check(q *Question) error {
	if err := goTogether(q.Given); err != nil {
		return err
	}
	loaded := q.Given("rate") || q.Given("concurrency")
	switch {
	case !loaded && l.drawn():
		return Usage("--prompt-len and --gen-len: without a load all sequences of a batch have one length; give --rate or --concurrency for a " +
			"distribution")
	case l.drawn() && q.Workload.CachedPrefix > 0:
		return Usage("--cached-prefix is of prompts of one length: give --prefix-hit-rate for a distribution")
	case len(l.rates) > 1:
		return Usage("which load? Give one --rate; llmprof simulate and sweep take several")
	}
	return nil
}

// rate is the only rate, 0 where clients are the load.
func (l *SteadyLoad) rate() float64 {
	if len(l.rates) != 1 {
		return 0
	}
	return l.rates[0]
}

// closed is the server, where its steady state has a closed form.
func (l *SteadyLoad) closed(ctx context.Context, from Sources, ans *Answer) (*serving.Server, error) {
	if err := closedForm(ans.Q.Given); err != nil {
		return nil, err
	}
	server, err := l.Server(ctx, from, ans)
	if err != nil {
		return nil, err
	}
	if w := &ans.Workload; w.CachedPrefix > 0 {
		if l.asked.HitRate > 0 {
			return nil, Usage("--cached-prefix and --prefix-hit-rate say the same: give one")
		}
		server.HitRate = float64(w.CachedPrefix) / float64(w.PromptLen)
	}
	return server, nil
}

// Rates are the steady states of one server at any rate and with any number of clients, which share the times of its steps.
type Rates struct {
	server      *serving.Server
	prompt, gen serving.Lengths
	all         *serving.Steadies
	slower      float64
}

// Rates prepares the server of an answer.
func (l *SteadyLoad) Rates(ctx context.Context, from Sources, ans *Answer) (*Rates, error) {
	server, err := l.closed(ctx, from, ans)
	if err != nil {
		return nil, err
	}
	prompt, gen := l.lengths(ans)
	all, err := server.Steadies(ctx, prompt, gen)
	return &Rates{server, prompt, gen, all, plan.Slower(&ans.Estimate.Estimate)}, err
}

// During lets a context end what is asked from now on.
func (r *Rates) During(ctx context.Context) { r.all.During(ctx) }

// At is the steady state at a rate, with that at the slow end of the interval where that is stable.
func (r *Rates) At(rate float64) (*view.Load, error) {
	load, layout := &view.Load{Server: r.server, Rate: &rate, Prompt: r.prompt, Gen: r.gen}, r.server.Layout()
	var err error
	if load.Steady, err = r.all.Rate(rate, layout); err == nil {
		load.High, _ = plan.SlowRate(r.all, rate, layout, r.slower)
	}
	return load, err
}

// clients is the steady state under so many clients that each have one request at a time.
func (r *Rates) clients(n int) (*view.Load, error) {
	if n < 1 {
		return nil, Usage("--concurrency %d: want at least 1", n)
	}
	if err := serving.CheckClients(n); err != nil {
		return nil, Usage("--concurrency: %w", err)
	}
	load := &view.Load{Server: r.server, Concurrency: &n, Prompt: r.prompt, Gen: r.gen}
	var err error
	if load.Steady, err = r.all.Clients(n, r.server.Layout()); err == nil {
		load.High = plan.Stretched(load.Steady, r.slower)
	}
	return load, err
}

// unused refuses flags of a server where there is no load.
func unused(given func(string) bool) error {
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

// A ChartRate is the steady state at a rate, or why there is none.
type ChartRate struct {
	Rate   float64
	Steady *serving.Steady
	Err    error
}

const (
	chartLow   = 1e-3 // requests a second, which any server answers
	chartSteps = 7    // rates before the last but one
	chartStep  = 1.5  // a rate over the one before

	// ChartTop is the highest rate over the most that the server answers: states close to it take long, and rise without end.
	ChartTop = 0.85
)

// A ChartPart is a part of the rates of a chart, for workers that share it: the highest rate takes as long as all others.
type ChartPart string

// Parts of a chart; "" is all of it.
const (
	PartTop   ChartPart = "top"
	PartBelow ChartPart = "below"
)

// Chart is the steady states at rates up to almost the most that the server answers, and by how much longer than expected everything takes
// at the slow end of the interval: the slow end at a rate is the state of a rate so many times as high, stretched by as much.
func (r *Rates) Chart(part ChartPart) (all []ChartRate, slower float64, err error) {
	layout := r.server.Layout()
	if _, err := r.all.Rate(chartLow, layout); err != nil {
		return nil, 0, err
	}
	most, err := r.all.Capacity(layout)
	if err != nil {
		return nil, 0, err
	}
	rates := spread(ChartTop * most.Rate)
	switch last := len(rates) - 1; part {
	case PartTop:
		rates = rates[last:]
	case PartBelow:
		rates = rates[:last]
	}
	for _, rate := range rates {
		at := ChartRate{Rate: rate}
		at.Steady, at.Err = r.all.Rate(rate, layout)
		all = append(all, at)
	}
	return all, r.slower, nil
}

// spread are rates up to the highest, in equal steps but for the last, which is halved as times rise steeply there.
func spread(top float64) (rates []float64) {
	for i := chartSteps; i > 0; i-- {
		rates = append(rates, top/math.Pow(chartStep, float64(i)))
	}
	return append(rates, top/math.Sqrt(chartStep), top)
}
