package deployment

import (
	"cmp"
	"context"
	"math"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/roofline"
	"llmprof/serving"
	"llmprof/unit"
)

// A Load is the steady state of a server under a load.
type Load struct {
	Rate        *float64
	Concurrency *int
	Prompt, Gen serving.Lengths
	Server      *serving.Server
	Steady      *serving.Steady
	High        *serving.Steady // at the slow end of the interval; nil where that is not stable
}

// States are the steady states of one server at any rate and with any number of clients, which share the times of its steps.
type States struct {
	server      *serving.Server
	prompt, gen serving.Lengths
	all         *serving.Steadies
	slower      float64
}

// States prepares the server of a deployment whose request alone has an estimate.
func (d *Deployment) States(ctx context.Context, alone *analytic.Estimate) (*States, error) {
	q := d.Request
	if err := q.closedForm(); err != nil {
		return nil, err
	}
	server, err := d.Server(ctx)
	if err != nil {
		return nil, err
	}
	if w := &d.Workload; w.CachedPrefix > 0 {
		if or(q.HitRate, 0) > 0 {
			return nil, unit.Errorf("{cached_prefix} and {prefix_hit_rate} say the same: give one")
		}
		server.HitRate = float64(w.CachedPrefix) / float64(w.PromptLen)
	}
	prompt, gen := or(cmp.Or(d.prompts, q.Prompts), serving.Fixed(d.Workload.PromptLen)), or(q.Answers, serving.Fixed(d.Workload.GenLen))
	server.Predictor = server.Predictor.ForPrompts(prompt.MeanLength() * (1 - server.HitRate))
	if w := d.Workload; w.CachedPrefix == 0 && server.HitRate > 0 { // The interval is that of prompts without what the cache has of them.
		w.CachedPrefix = int(server.HitRate * float64(w.PromptLen))
		p, err := d.Predictor()
		if err != nil {
			return nil, err
		}
		cached, err := p.Predict(&w)
		if err != nil {
			return nil, err
		}
		alone = &cached
	}
	all, err := server.Steadies(ctx, prompt, gen)
	return &States{server, prompt, gen, all, Slower(alone)}, err
}

// During lets a context end what is asked from now on.
func (s *States) During(ctx context.Context) { s.all.During(ctx) }

// Of is the steady state under the load of a request, with that at the slow end of the interval where that is stable.
func (s *States) Of(q *Request) (load *Load, err error) {
	load = &Load{Server: s.server, Rate: (*float64)(q.Rate), Concurrency: q.Concurrency, Prompt: s.prompt, Gen: s.gen}
	layout := s.server.Layout
	if q.Rate != nil {
		if load.Steady, err = s.all.Rate(*load.Rate, layout); err != nil {
			return load, err
		}
		if slow, err := s.all.Rate(*load.Rate*s.slower, layout); err == nil { // what the server does at x times the rate, only x times as slowly
			load.High = Stretched(slow, s.slower)
		}
		return load, nil
	}
	switch n := *q.Concurrency; {
	case n < 1:
		return nil, unit.Errorf("{concurrency} %d: want at least 1", n)
	case serving.CheckClients(n) != nil:
		return nil, unit.Errorf("{concurrency}: %w", serving.CheckClients(n))
	}
	if load.Steady, err = s.all.Clients(*q.Concurrency, layout); err == nil {
		load.High = Stretched(load.Steady, s.slower)
	}
	return load, err
}

// Warning says where the figures of a steady state are uncertain; nil for none. Clients hold no more requests than they are.
func (l *Load) Warning() *unit.Warning {
	if l.Rate == nil {
		return nil
	}
	return l.Steady.Warning()
}

// loaded adds the steady state under the load that was asked for.
func (ans *Answer) loaded(ctx context.Context) error {
	q := ans.Request
	if err := q.CheckLoad(); err != nil || !q.Loaded() {
		return err
	}
	all, err := ans.States(ctx, &ans.Estimate)
	if err != nil {
		return err
	}
	if ans.Load, err = all.Of(q); err == nil {
		ans.warn(ans.Load.Warning())
	}
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
func (s *States) Chart(part ChartPart) (all []ChartRate, slower float64, err error) {
	layout := s.server.Layout
	if _, err := s.all.Rate(chartLow, layout); err != nil {
		return nil, 0, err
	}
	most, err := s.all.Capacity(layout)
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
		at.Steady, at.Err = s.all.Rate(rate, layout)
		all = append(all, at)
	}
	return all, s.slower, nil
}

// spread are rates up to the highest, in equal steps but for the last, which is halved as times rise steeply there.
func spread(top float64) (rates []float64) {
	for i := chartSteps; i > 0; i-- {
		rates = append(rates, top/math.Pow(chartStep, float64(i)))
	}
	return append(rates, top/math.Sqrt(chartStep), top)
}

// Slower is by how much longer than expected everything takes at the slow end of the interval
// of a request alone.
func Slower(e *analytic.Estimate) float64 {
	x := float64(e.TTFT.High / e.TTFT.Expected)
	if e.TPOT.Expected > 0 {
		x = max(x, float64(e.TPOT.High/e.TPOT.Expected))
	}
	return x
}

// Stretched is a steady state in which everything takes x times as long.
func Stretched(st *serving.Steady, x float64) *serving.Steady {
	slow := *st
	slow.TTFT, slow.TPOT, slow.E2E = st.TTFT.Times(x), st.TPOT.Times(x), st.E2E.Times(x)
	slow.Rate, slow.Throughput, slow.Capacity.Rate = st.Rate/x, st.Throughput/x, st.Capacity.Rate/x
	return &slow
}

// Handover is the rate at which one of so many GPUs hands its KV cache to another replica: by
// the link of one node, or by the network.
func Handover(g *hardware.GPU, gpus int) unit.BytesPerSec {
	if gpus <= g.GPUsPerNode {
		return g.LinkAmong(gpus)
	}
	return g.NIC
}

// Drafter prices the model's own draft (MTP) module on the GPUs of a case.
func Drafter(of *analytic.Case) (*analytic.Predictor, error) {
	d := of.Model.DraftModule()
	if d == nil {
		return nil, unit.Errorf("the draft (MTP) layer of %s has no attention: give {draft_model}", of.Model.Name)
	}
	c, m := *of, *of.Machine
	for _, k := range []roofline.Constant{roofline.HostAsync, roofline.HostSequence, roofline.HostStep} {
		m.Cal.Constants[k] = 0
	}
	c.Model, c.Machine, c.Parallel.PP, c.Parallel.MicroBatches = d, &m, 1, 1
	c.Settings = operator.Settings{}
	return analytic.NewPredictor(&c)
}
