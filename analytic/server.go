package analytic

import (
	"slices"

	"llmprof/analytic/energy"
	"llmprof/analytic/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

// A StepCost is the time and the energy of a step, and when the host works for it.
type StepCost struct {
	Time   unit.Seconds // time from the first kernel's start to the last kernel's end
	Energy unit.Joules  // drawn by all GPUs of a replica
	// Host time from the last launch of the step before to the first of this one; if no step runs yet, RequestTime includes it.
	Before   unit.Seconds
	Launch   unit.Seconds // host time from the first launch to the last
	Waits    unit.Seconds // part of Time in which the GPU waits for the host's launches
	Stage    unit.Seconds // time of the longest stage of a pipeline whose batches are priced one by one; else 0
	Headroom Headroom
}

// Window is the time over which a GPU holds its power limit.
const Window = energy.Window

// A Headroom is what a step of prompts takes less on a GPU that did nothing before it: the power limit is held over RequestTime too,
// as it is in the estimate of a request alone.
type Headroom struct {
	Time   unit.Seconds
	Energy unit.Joules // below 0: the clocks are higher
}

// StepCost prices a step of several groups, decodes before chunks of prompts. The step is one forward pass: all
// groups share its GEMMs, and each group has its attention. epTokens is the number of tokens of all replicas that
// share the experts; 0 if each replica has as many as this one.
func (p *Predictor) StepCost(groups []operator.Group, epTokens float64) StepCost {
	if p.Par.MicroBatches > 1 {
		return p.pipelined(groups, epTokens)
	}
	return p.cost(groups, epTokens)
}

// mixed prices a step of several groups, without micro-batches.
func (p *Predictor) mixed(t *total, groups []operator.Group, epTokens float64) operator.Step {
	s := p.Mixed(groups)
	s.EPTokens = epTokens
	p.step(t, &s, times)
	return s
}

// cost is mixed with its energy, and with what the host does meanwhile.
func (p *Predictor) cost(groups []operator.Group, epTokens float64) (c StepCost) {
	var t total
	s := p.mixed(&t, groups, epTokens)
	c.Launch, c.Waits = t.host, max(t.host-t.kernels-t.clamped, 0)
	if !s.Decode() {
		c.Before = p.between(&s)
		c.Launch += p.machine.seconds(roofline.StreamNode).Times(t.launches)
	}
	alone := t.timing
	p.limit(&t, 1, !s.Decode())
	c.Time, c.Energy = t.Expected, p.stepEnergy(&t.timing)
	for i := range t.stage[:t.numStages] {
		c.Stage = max(c.Stage, t.stage[i].Expected)
	}
	if request := p.requestTime(); request.sum() > 0 && !s.Decode() {
		alone.waitsForHost(request, nil)
		alone.slow(p.machine)
		c.Headroom = Headroom{t.throttled - alone.throttled, c.Energy - p.stepEnergy(&alone) + p.idleEnergy(request.sum())}
	}
	return c
}

// pipelined prices a turn of all micro-batches through a full pipeline: a micro-batch comes again once it has gone through all stages, and
// no sooner than the longest stage has let all through. A prompt takes every stage longer than what decodes does, so the stages wait for
// each other beside it. Prompts that come meanwhile join one micro-batch; those that come within a turn that only decodes are spread over
// all.
func (p *Predictor) pipelined(groups []operator.Group, epTokens float64) StepCost {
	var decodes []operator.Group
	sequences, prompts := 0.0, 0.0
	for _, g := range groups {
		if g.Decodes() {
			decodes, sequences = append(decodes, g), sequences+g.Batch
		} else {
			prompts += g.Batch
		}
	}
	parts := max(min(float64(p.Par.MicroBatches), sequences), 1) // A micro-batch has at least one sequence.
	if prompts == 0 {
		return p.turn(groups, epTokens, parts)
	}
	rest, whole := StepCost{}, p.turn(groups, epTokens, parts)
	if sequences > 0 {
		rest = p.turn(decodes, epTokens, parts)
	}
	one := float64(whole.Time-rest.Time) / prompts
	// Share of further prompts that another micro-batch has.
	apart := float64(rest.Time) / (float64(rest.Time) + one) * (1 - 1/float64(p.Par.MicroBatches))
	time := rest.Time + (whole.Time - rest.Time).Times(1-apart*max(1-1/prompts, 0))
	// whole has the prompts in each of its micro-batches.
	work := func(c *StepCost) unit.Joules { return c.Energy - p.idleEnergy(c.Time) }
	return StepCost{Time: time, Energy: p.idleEnergy(time) + work(&rest) + (work(&whole) - work(&rest)).Times(1/parts)}
}

// turn prices a turn of micro-batches through a full pipeline, each of which has a part of the sequences that decode, and all prompts.
func (p *Predictor) turn(groups []operator.Group, epTokens, parts float64) StepCost {
	groups = slices.Clone(groups)
	for i := range groups {
		if g := &groups[i]; g.Decodes() {
			g.Batch /= parts
		}
	}
	var t total
	p.mixed(&t, groups, epTokens)
	p.limit(&t, parts, false)
	return StepCost{Time: t.Expected, Energy: p.stepEnergy(&t.timing)}
}

// OneBatch is the predictor of a batch that has the pipeline for itself.
func (p *Predictor) OneBatch() *Predictor {
	one, par := *p, *p.Par
	par.MicroBatches = 1
	one.Par = &par
	return &one
}

// stepEnergy is the energy of all GPUs of a replica for a step.
func (p *Predictor) stepEnergy(t *timing) unit.Joules {
	return t.draws(p.machine, p.Par).For(t.Expected).Times(float64(p.Par.TP * p.Par.PP))
}

// idleEnergy is the energy of all GPUs of a replica that wait for a time.
func (p *Predictor) idleEnergy(t unit.Seconds) unit.Joules {
	return p.machine.Waiting.For(t).Times(float64(p.Par.TP * p.Par.PP))
}

// MixedStep is the time and the energy of StepCost.
func (p *Predictor) MixedStep(groups []operator.Group) (unit.Seconds, unit.Joules) {
	c := p.StepCost(groups, 0)
	return c.Time, c.Energy
}

// Replica is the number of GPUs of one replica, and the price of each; 0 if no price is known.
func (p *Predictor) Replica() (gpus int, price unit.DollarsPerHour) {
	return p.Par.TP * p.Par.PP, p.price
}

// FrontendTime is the time of the API server's thread for each request that it receives, for each
// token that it sends, and to end the stream of a request.
func (p *Predictor) FrontendTime() (intake, token, finish unit.Seconds) {
	return p.machine.seconds(roofline.HostIntake), p.machine.seconds(roofline.HostToken), p.machine.seconds(roofline.HostFinish)
}

// Waiting is the power that one GPU draws at full clocks without work.
func (p *Predictor) Waiting() unit.Watts { return p.machine.Waiting }
