package analytic

import (
	"cmp"
	"slices"

	"llmprof/analytic/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

// A Predictor estimates any number of workloads of one model, machine, split and scheme. It
// serves several goroutines at once. Through its operator.Rank it has the Model, its
// split Par, and the formats Scheme, Dense and Plain.
type Predictor struct {
	operator.Footprint
	machine *Machine
	price   unit.DollarsPerHour
	layers  int
	caveats []caveat
}

// NewPredictor prepares for estimates of c, whatever its Workload.
func NewPredictor(c *Case) (*Predictor, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	m, g, e := c.Machine, c.Machine.GPU, c.Machine.Engine.Profile()
	scheme := c.Scheme
	if scheme.State == unit.NoFormat && e.State != nil {
		scheme.State = e.State(c.Model)
	}
	scheme.Conv, scheme.Newest = e.Conv, e.Newest
	rank := operator.NewRank(c.Model, c.Parallel, scheme, c.Popularity)
	if e.Padding != nil && scheme.Weights == unit.MXFP4 {
		rank.Padding = e.Padding(g)
	}
	rank.Offload, rank.HostEmbedding, rank.Encoders, rank.Settings, rank.Early = c.Offload, e.HostEmbedding, c.Encoders, c.Settings, e.Early
	rank.Settings.Longest = cmp.Or(c.Workload.Longest, c.Model.MaxContext)
	p := &Predictor{Footprint: operator.NewFootprint(&rank, operator.Reserve(rank.Par, g.System(), e.Reserve)), machine: m, price: c.Price,
		layers: c.Model.NumLayers()}
	p.Device = operator.DeviceMemory{Capacity: g.Visible(), Share: m.Utilization, Static: e.Static, OfFree: e.OfFree}
	if e.Allocate != nil {
		a := e.Allocate(&p.Rank, g)
		if e.Eager {
			a.Graphs = 0
		}
		p.Allocate(a, float64(cmp.Or(c.Workload.Budget, m.Budget)))
	}
	p.caveats = p.caveatsOf()
	return p, nil
}

// ForPrompts is the predictor of a server whose prompts have so many tokens on average.
func (p *Predictor) ForPrompts(tokens float64) *Predictor {
	if len(p.Encoders) == 0 {
		return p
	}
	own := *p
	own.Encoders = slices.Clone(p.Encoders)
	for i := range own.Encoders {
		own.Encoders[i].Prompt = tokens
	}
	return &own
}

// Prefill is the steps of a prefill of one micro-batch, chunk by chunk.
func (p *Predictor) Prefill(w *Workload) [4]operator.Run { return p.Rank.Prefill(w, p.machine.Budget) }

// Budget is the most tokens of a step of the engine; 0 for no limit.
func (p *Predictor) Budget() float64 { return float64(p.machine.Budget) }

// StepTime is the time of a step in which each of batch sequences gains fresh tokens after
// past ones, with the scores of logits positions of each.
func (p *Predictor) StepTime(batch, fresh, past, logits float64) unit.Seconds {
	s := p.Step(batch, fresh, past, logits)
	var t total
	p.step(&t, &s, times)
	t.slow(p.machine)
	return t.Expected
}

// StepSlopes is StepTime, and sets slopes to its derivatives.
func (p *Predictor) StepSlopes(slopes *roofline.Slopes, batch, fresh, past, logits float64) unit.Seconds {
	s := p.Step(batch, fresh, past, logits)
	var t total
	p.step(&t, &s, estimate)
	t.slow(p.machine)
	t.throttleSlopes(p.machine.Throttle)
	*slopes = t.slopes
	return t.Expected
}

// FirstToken is the TTFT of a workload, and sets slopes, unless they are nil, to its derivatives.
func (p *Predictor) FirstToken(w *Workload, slopes *roofline.Slopes) (unit.Seconds, error) {
	if slopes == nil {
		e, _, _, err := p.predict(w, times, false)
		return e.TTFT.Expected, err
	}
	e, prefill, _, err := p.predict(w, estimate, false)
	*slopes = prefill.slopes
	return e.TTFT.Expected, err
}
