package analytic

import (
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// A Group is the sequences of a mixed step that gain the same number of tokens: those
// that decode, or a chunk of a prompt. A step of continuous batching has several.
type Group struct {
	Batch   float64 // sequences
	New     float64 // tokens that each of them gains
	Past    float64 // mean of those that they have
	Logits  float64 // positions of each that the LM head runs on
	Drafted bool    // New tokens were drafted, and are verified together
}

// mix appends what mixes the tokens of a sequence: attention, or a scan. Products, norms
// and experts see the tokens of a step as rows; here each group has its own context. The
// operators of groups that take the same kernels are one, as kernels for sequences of
// various lengths are.
func (s *Step) mix(dst []Op, b *models.Block) []Op {
	if len(s.Groups) == 0 {
		return s.mixOne(dst, b)
	}
	previous := len(dst)
	for i := range s.Groups {
		one, first := *s, len(dst)
		g := &s.Groups[i]
		one.Groups, one.Batch, one.New, one.Past, one.Drafted = nil, g.Batch, g.New, g.Past, g.Drafted
		dst = one.mixOne(dst, b)
		if joined := join(dst[previous:first], dst[first:]); joined {
			dst = dst[:first]
			continue
		}
		previous = first
	}
	return dst
}

// mixOne is mix of one group.
func (s *Step) mixOne(dst []Op, b *models.Block) []Op {
	switch {
	case b.Attention != nil:
		return s.attention(dst, b)
	case b.Scan != nil:
		return s.scan(dst, b.Scan)
	}
	return dst
}

// join adds operators to those of an earlier group if the same kernels do them.
func join(earlier, ops []Op) bool {
	if len(earlier) != len(ops) {
		return false
	}
	for i := range ops {
		if earlier[i].Name != ops[i].Name || earlier[i].Type != ops[i].Type || earlier[i].Decode != ops[i].Decode {
			return false
		}
	}
	for i := range ops {
		e, o := &earlier[i], &ops[i]
		weights := o.Work.Weights // are read once for all groups
		e.Work.Add(&o.Work, 1)
		e.Work.Weights -= weights
		e.Model += o.Model
		e.Shape.M += o.Shape.M
	}
	return true
}

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
func (p *Predictor) StepCost(groups []Group) StepCost {
	s := p.mixedStep(groups)
	s.inParts(float64(p.Par.MicroBatches))
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
func (p *Predictor) MixedStep(groups []Group) (unit.Seconds, unit.Joules) {
	c := p.StepCost(groups)
	return c.Time, c.Energy
}

// mixedStep is a step of several groups.
func (p *Predictor) mixedStep(groups []Group) Step {
	s := p.template()
	s.Groups = groups
	var tokens, past, logits float64
	s.Batch, s.Drafted = 0, true
	for i := range groups {
		g := &groups[i]
		s.Batch += g.Batch
		tokens += g.Batch * g.New
		past += g.Batch * g.Past
		logits += g.Batch * g.Logits
		s.Drafted = s.Drafted && g.Drafted
	}
	s.New, s.Past, s.Logits = tokens/s.Batch, past/s.Batch, logits/s.Batch
	if len(groups) == 1 {
		s.Groups = nil
	}
	return s
}

// inParts makes the step that of one of several micro-batches.
func (s *Step) inParts(parts float64) {
	if parts == 1 {
		return
	}
	s.Batch /= parts
	own := make([]Group, len(s.Groups))
	for i, g := range s.Groups {
		g.Batch /= parts
		own[i] = g
	}
	s.Groups = own
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
