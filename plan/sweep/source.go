package sweep

import (
	"context"
	"slices"
	"strings"

	"llmprof/analytic"
	"llmprof/deployment"
)

// A library prepares the settings of a grid as requests, of which each point has the figures that an estimate gives.
type library struct {
	ctx   context.Context
	from  *deployment.Library
	grid  *Grid
	lists []int // axes of several values that have no column of their own

	servers map[lengths]*deployment.States // Each answers any load, and is made by the settings in of.
	of      string                         // It spells the settings that servers have, without the load.
}

// lengths are what the steady states of a server at any rate depend on besides its setting.
type lengths struct{ prompt, cached, gen int }

// mostServers bounds how many servers are kept for further rates.
const mostServers = 64

// NewSource makes the source of a grid for one goroutine.
func NewSource(ctx context.Context, from *deployment.Library, g *Grid) Source {
	s := &library{ctx: ctx, from: from, grid: g}
	columns := append(Columns(true), "rate")
	for i := range g.Axes {
		if a := &g.Axes[i]; len(a.Values) > 1 && !slices.Contains(columns, a.Key) {
			s.lists = append(s.lists, i)
		}
	}
	return s
}

// request is that of a point. Settings of speculation and of replicas that prefill mean nothing where there is none, so that the first of
// their values stands for none there, and others are refused as the same point again.
func (s *library) request(values []Value) *deployment.Request {
	q := &deployment.Request{}
	given := func(key string) bool {
		return slices.ContainsFunc(s.grid.Axes, func(a Axis) bool { return a.Key == key })
	}
	var last []func()
	for i, v := range values {
		a := &s.grid.Axes[i]
		first := v.Text == a.Values[0].Text
		switch a.Key {
		case "acceptance", "draft_model":
			last = append(last, func() {
				if !first || !given("speculative_tokens") || q.Drafts != nil && *q.Drafts > 0 {
					v.Set(q)
				}
			})
		case "kv_link":
			last = append(last, func() {
				if !first || !given("prefill_replicas") || q.Prefillers != nil && *q.Prefillers > 0 {
					v.Set(q)
				}
			})
		default:
			v.Set(q)
		}
	}
	for _, set := range last {
		set()
	}
	return q
}

// Prepare prepares the case of a point.
func (s *library) Prepare(values []Value) (*Setup, error) {
	q := s.request(values)
	p := q.Split()
	setup := &Setup{Workload: q.Workload(), Setting: Setting{
		Model: q.Model, GPU: q.GPU, Engine: q.Engine, TP: p.TP, PP: p.PP, EP: p.EP, MoETP: p.MoETP, DP: p.DP, SP: p.SP,
		MicroBatches: p.MicroBatches, Weights: q.Weights, AllLogits: q.AllLogits, Other: s.other(values),
	}}
	if q.Concurrency != nil {
		setup.Setting.Concurrency = *q.Concurrency
	}
	if q.Rate != nil {
		setup.Setting.Rate = float64(*q.Rate)
	}
	d, err := s.from.Resolve(s.ctx, q)
	if err != nil {
		return setup, err
	}
	gpus := d.AllGPUs()
	row := &setup.Setting
	row.Model, row.GPU, row.Engine = d.Model.Name, d.GPU.Key, d.Machine.Engine.Profile().Name
	row.MicroBatches = d.Parallel.MicroBatches
	row.Calibration, row.Measured, row.GPUs = d.Machine.Cal.Name, d.Machine.Cal.Measured, gpus
	row.Weights, row.Act, row.KV = d.Scheme.Name, d.Scheme.Act.String(), d.Scheme.KV.String()
	row.PerHour = float64(d.Price) * float64(gpus)
	if setup.Case, err = d.Predictor(); err != nil {
		return setup, err
	}
	setup.MaxContext, setup.Media = d.Model.MaxContext, d.MediaTokens
	if s.grid.Loaded() {
		setup.Load = s.load(d, values)
	}
	return setup, nil
}

// load is the steady state of a deployment's server, which is prepared once for all loads.
func (s *library) load(d *deployment.Deployment, values []Value) func(*analytic.Workload, *analytic.Estimate) (Loaded, error) {
	var others []string
	for i, v := range values {
		if key := s.grid.Axes[i].Key; key != "rate" && key != "concurrency" {
			others = append(others, v.Text)
		}
	}
	if of := strings.Join(others, "\x00"); of != s.of {
		s.servers, s.of = map[lengths]*deployment.States{}, of
	}
	return func(w *analytic.Workload, e *analytic.Estimate) (Loaded, error) {
		key := lengths{w.PromptLen, w.CachedPrefix, w.GenLen}
		if s.servers[key] == nil {
			own := *d
			own.Workload = *w
			all, err := own.States(s.ctx, e)
			if err != nil {
				return Loaded{}, err
			}
			if len(s.servers) >= mostServers {
				clear(s.servers)
			}
			s.servers[key] = all
		}
		load, err := s.servers[key].Of(d.Request)
		if err != nil {
			return Loaded{}, err
		}
		return rowOf(load), nil
	}
}

// rowOf is a steady state as a row has it.
func rowOf(l *deployment.Load) Loaded {
	row := Loaded{MostBound: l.Steady.Capacity.Bound}
	f := filler{metrics: l.Steady.Metrics(l.High)}
	f.bind(&row)
	f.set()
	return row
}

// other are the values of the lists that have no column of their own, as name=value. Dashes before a flag would be an apostrophe more in
// CSV.
func (s *library) other(values []Value) string {
	var all []string
	for _, i := range s.lists {
		all = append(all, s.grid.Axes[i].Name+"="+values[i].Text)
	}
	return strings.Join(all, " ")
}
