package analytic

import (
	"llmprof/energy"
	"llmprof/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

// A StepCost is the time and the energy of a step, and when the host works for it.
type StepCost struct {
	Time   unit.Seconds // time from the first kernel's start to the last kernel's end
	Energy unit.Joules  // drawn by all GPUs of a replica
	Before unit.Seconds // host time from the last launch of the step before to the first of this one; if no step runs yet, RequestTime includes it
	Launch unit.Seconds // host time from the first launch to the last
	Waits  unit.Seconds // part of Time in which the GPU waits for the host's launches
	Spared Spared
}

// Window is the time over which a GPU holds its power limit.
const Window = energy.Window

// A Spared is what a step of prompts takes less on a GPU that did nothing before it: the power limit is held over RequestTime too,
// as it is in the estimate of a request alone.
type Spared struct {
	Time   unit.Seconds
	Energy unit.Joules // below 0: the clocks are higher
}

// StepCost prices a step of several groups, decodes before chunks of prompts. The step is one forward pass: all
// groups share its GEMMs, and each group has its attention. Together is the number of tokens of all replicas that
// share the experts; 0 if each replica has as many as this one.
func (p *Predictor) StepCost(groups []operator.Group, together float64) StepCost {
	bare := *p
	bare.bare, bare.steps = true, nil
	return bare.cost(groups, together)
}

// Cached is the predictor with a cache of the steps that StepCost prices. It serves one goroutine.
func (p *Predictor) Cached() *Predictor {
	q := *p
	q.cache = newStepCache(true, servedBatches)
	return &q
}

// cost prices a step of several groups by a predictor without counts.
func (p *Predictor) cost(groups []operator.Group, together float64) StepCost {
	s := p.Mixed(groups)
	s.Together = together
	var t total
	p.step(&t, &s)
	c := StepCost{}
	if p.Par.MicroBatches == 1 { // launches of several micro-batches are not modelled
		c.Launch, c.Waits = t.host, max(t.host-t.kernels-t.raised, 0)
		if !s.Decode() {
			c.Before = p.between(&s)
			c.Launch += p.machine.seconds(roofline.StreamNode).Times(t.launches)
		}
	}
	rested := t.timing
	p.limit(&t, !s.Decode())
	c.Time = t.Expected
	c.Energy = p.drawn(&t.timing)
	if wait := p.RequestTime(); wait > 0 && !s.Decode() {
		rested.waitsForHost(wait)
		rested.limit(p.machine)
		c.Spared.Time = t.throttled - rested.throttled
		c.Spared.Energy = c.Energy - p.drawn(&rested) + p.machine.Waiting.For(wait).Times(float64(p.Par.TP*p.Par.PP))
	}
	return c
}

// drawn is the energy of all GPUs of a replica for a step.
func (p *Predictor) drawn(t *timing) unit.Joules {
	return t.draws(p.machine, float64(p.Par.PP)).For(t.Expected).Times(float64(p.Par.TP * p.Par.PP))
}

// DecodeCost prices a decode step of a batch of sequences with a mean context.
func (p *Predictor) DecodeCost(batch, context float64) StepCost {
	return p.StepCost([]operator.Group{{Batch: batch, New: 1, Past: context, Logits: 1}}, 0)
}

// MixedStep is the time and the energy of StepCost.
func (p *Predictor) MixedStep(groups []operator.Group) (unit.Seconds, unit.Joules) {
	c := p.StepCost(groups, 0)
	return c.Time, c.Energy
}

// CacheRoom is the memory of one GPU that is left for the KV cache and the state of
// sequences, where a step has up to the given number of tokens and of sequences.
func (p *Predictor) CacheRoom(tokens, sequences int) unit.Bytes {
	return p.footprint.ForCache(p.machine.room(), tokens, sequences)
}

// Weights is the memory of the weights on one GPU: all of them, and those of the layers.
func (p *Predictor) Weights() (all, layers unit.Bytes) { return p.footprint.Weights() }

// SequenceBytes is the memory that a sequence of context tokens takes on one GPU.
func (p *Predictor) SequenceBytes(context float64) unit.Bytes { return p.footprint.Sequence(context) }

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
