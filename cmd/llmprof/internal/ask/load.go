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
	return Refuse(given, []string{"routing", "kv-offload", "preemption", "watermark", "no-prefix-cache"}, "--%s has no closed form: llmprof simulate takes it")
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
		return Usage("--prompt-len and --gen-len: without a load all sequences of a batch have one length; give --rate or --concurrency for a distribution")
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
	all, err := server.Steadies(prompt, gen)
	return &Rates{server, prompt, gen, all, plan.Slower(&ans.Estimate.Estimate)}, err
}

// At is the steady state at a rate, with that at the slow end of the interval where that is stable.
func (r *Rates) At(rate float64) (*view.Load, error) {
	load, layout := &view.Load{Server: r.server, Rate: &rate, Prompt: r.prompt, Gen: r.gen}, r.layout()
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
	load := &view.Load{Server: r.server, Concurrency: &n, Prompt: r.prompt, Gen: r.gen}
	var err error
	if load.Steady, err = r.all.Clients(n, r.layout()); err == nil {
		load.High = plan.Stretched(load.Steady, r.slower)
	}
	return load, err
}

func (r *Rates) layout() serving.Layout {
	return serving.Layout{Replicas: r.server.Replicas, Prefillers: r.server.Prefillers, Link: r.server.Link}
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

// A ChartRate is the steady state at a rate, or why there is none, and the one at the slow end of the interval; nil where it was not asked for or is not
// stable.
type ChartRate struct {
	Rate         float64
	Steady, High *serving.Steady
	Err          error
}

// A Part is the rates of a chart that are worked out at once: the highest takes about as long as all others.
type Part int

// Parts of a chart.
const (
	AllRates   Part = iota // every rate
	TopRate                // the highest
	OtherRates             // all but the highest
)

// has reports whether the highest rate, or another one, is in the part.
func (p Part) has(highest bool) bool { return p == AllRates || highest == (p == TopRate) }

const (
	chartLow   = 1e-3 // requests a second, which any server answers
	chartSteps = 10   // most steps of a chart
	chartSpan  = 12   // the highest rate of a chart over the lowest, about
	chartStep  = 1.5  // a rate over the one before, about
	chartTop   = 0.9  // the highest rate over the most that the server answers: states close to it take long, and rise without end
)

// Chart is the steady states of a part of the rates up to almost the most that the server answers. The slow end of the interval
// at one rate has the state of a higher rate, stretched: where the chart has that rate, its state is taken.
func (r *Rates) Chart(part Part) ([]ChartRate, error) {
	layout := r.layout()
	if err := r.all.Stable(chartLow, layout); err != nil {
		return nil, err
	}
	most, err := r.all.Capacity(layout)
	if err != nil {
		return nil, err
	}
	rates, ahead := spread(most.Rate, r.slower)
	all := make([]ChartRate, len(rates))
	for i := len(all) - 1; i >= 0; i-- {
		at, slow := &all[i], ahead[i]
		at.Rate = rates[i]
		if part.has(i == len(all)-1) {
			at.Steady, at.Err = r.all.Rate(rates[i], layout)
		}
		switch {
		case slow == 0 && at.Steady != nil:
			at.High, _ = plan.SlowRate(r.all, rates[i], layout, r.slower)
		case slow > 0 && slow < len(all) && all[slow].Steady != nil:
			at.High = plan.Stretched(all[slow].Steady, r.slower)
		}
	}
	return all, nil
}

// spread are rates up to almost the most that a server answers, in equal steps but for the last, which is halved as
// times rise steeply there. Rate ahead[i] is slower times rate i; 0 if none is, beyond all if that is no stable rate.
func spread(most, slower float64) (rates []float64, ahead []int) {
	step, by := chartStep, 0
	if slower > 1.15 {
		by = max(int(math.Round(math.Log(slower)/math.Log(step))), 1)
		step = math.Pow(slower, 1/float64(by))
	}
	steps := min(int(math.Ceil(math.Log(chartSpan)/math.Log(step))), chartSteps-1)
	add := func(rate float64, slow int) { rates, ahead = append(rates, rate), append(ahead, slow) }
	top := chartTop * most
	for i := range steps {
		slow := 0
		if by > 0 {
			slow = i + by
		}
		if slow >= steps { // the halved step lies between
			slow++
		}
		add(top*math.Pow(step, float64(i-steps)), slow)
	}
	beyond := 0
	if by > 0 {
		beyond = steps + 2
	}
	add(top/math.Sqrt(step), beyond)
	add(top, beyond)
	return rates, ahead
}
