package analytic

import (
	"llmprof/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

// A StepCost is what a step takes.
type StepCost struct {
	Time   unit.Seconds
	Energy unit.Joules  // of all GPUs of a replica
	Before unit.Seconds // that the host takes before it launches it; RequestTime has it where no step runs yet
	Launch unit.Seconds // from then on, until the last kernel is launched
	Waits  unit.Seconds // of Time, what the kernels wait for launches that begin when the step does
}

// StepCost is what a step of several groups takes, decodes before chunks of prompts. It is one forward
// pass: the groups share the rows of products, and each has attention of its own.
func (p *Predictor) StepCost(groups []operator.Group) StepCost {
	s := p.Mixed(groups)
	t := p.step(&s)
	c := StepCost{}
	if p.Par.MicroBatches == 1 { // else several are launched within a step
		c.Launch, c.Waits = t.host, max(t.host-t.kernels-t.raised, 0)
		if !s.Decode() {
			c.Before = p.async(&s)
			c.Launch += p.machine.seconds(roofline.StreamNode).Times(t.launches)
		}
	}
	p.limit(&t, !s.Decode())
	c.Time = t.Expected
	c.Energy = t.draws(p.machine, float64(p.Par.PP)).For(c.Time).Times(float64(p.Par.TP * p.Par.PP))
	return c
}

// MixedStep is the time and the energy of StepCost.
func (p *Predictor) MixedStep(groups []operator.Group) (unit.Seconds, unit.Joules) {
	c := p.StepCost(groups)
	return c.Time, c.Energy
}

// CacheRoom is the memory of one GPU that is left for the KV cache and the state of
// sequences, where a step has at most tokens tokens of at most sequences sequences.
func (p *Predictor) CacheRoom(tokens, sequences int) unit.Bytes {
	return p.footprint.ForCache(p.machine.room(), tokens, sequences)
}

// Weights is what one GPU keeps of the weights, and of the layers' alone.
func (p *Predictor) Weights() (all, layers unit.Bytes) { return p.footprint.Weights() }

// SequenceBytes is what one GPU keeps of a sequence of context tokens.
func (p *Predictor) SequenceBytes(context float64) unit.Bytes { return p.footprint.Sequence(context) }

// Replica is the GPUs of one replica, and what one of them costs; 0 if that is not known.
func (p *Predictor) Replica() (gpus int, price unit.DollarsPerHour) {
	return p.Par.TP * p.Par.PP, p.price
}

// FrontendTime is what the thread that speaks to clients takes for a request on its way in, and
// for each token on its way out.
func (p *Predictor) FrontendTime() (request, token unit.Seconds) {
	return p.machine.seconds(roofline.HostIntake), p.machine.seconds(roofline.HostToken)
}

// Waiting is what one GPU draws at full clocks while it does nothing.
func (p *Predictor) Waiting() unit.Watts { return p.machine.Waiting }
