package serving

import (
	"math"
	"slices"

	"llmprof/analytic"
	"llmprof/unit"
)

// A pipeline is the batches on their way through the stages of a replica (--pp). The scheduler forms them in turn, as many as may be
// under way: a sequence that a batch has gains its token at the end of the last stage, and so takes part in every such turn again
// (next_decode_eligible_step in vllm/v1/core/sched). With asynchronous scheduling one batch more is formed before its turn.
type pipeline struct {
	turn     int            // number of the batch that is formed
	ends     []unit.Seconds // ends of the latest batches, by their number modulo one more than may be under way
	free     []unit.Seconds // when each stage is free
	formed   unit.Seconds   // when the latest batch was formed
	inflight []inflight     // batches under way, in their order
}

// An inflight is what a batch brings when it leaves the last stage.
type inflight struct {
	end     unit.Seconds
	outputs []output
	ended   []*sequence
}

// pipeline is that of a replica; nil where one batch is under way at a time.
func (s *Server) pipeline() *pipeline {
	par := s.Predictor.Par
	if par.MicroBatches == 1 {
		return nil
	}
	return &pipeline{ends: make([]unit.Seconds, par.MicroBatches+1), free: make([]unit.Seconds, par.PP)}
}

// most is how many batches may be under way.
func (p *pipeline) most() int { return len(p.ends) - 1 }

// end is when the batch ended, or ends, that many turns before the one that is formed.
func (p *pipeline) end(before int) unit.Seconds {
	if before > p.turn {
		return 0
	}
	return p.ends[(p.turn-before)%len(p.ends)]
}

// cutoff is until when requests had to come for the batch that begins now: one that goes on with sequences is formed as soon as it may be.
func (r *replica) cutoff(now unit.Seconds) unit.Seconds {
	p, before := r.pipe, r.pipe.most()
	if r.rules.Async {
		before++
	}
	formed := min(max(p.formed, p.end(before)), now)
	if !slices.ContainsFunc(r.running, func(q *sequence) bool { return q.turn <= p.turn }) {
		formed = now
	}
	p.formed = formed
	return formed
}

// passes lets a batch into the first stage now, and tells when it leaves the last one. A stage takes the batches in their order.
func (p *pipeline) passes(now unit.Seconds, c *Cost) unit.Seconds {
	last := len(p.free) - 1
	each := (c.Time - c.Stage).Times(1 / float64(last))
	at := now
	for i := range last {
		at = max(at, p.free[i]) + each
		p.free[i] = at
	}
	at = max(at, p.free[last]) + c.Stage
	p.free[last] = at
	p.ended(at)
	return at
}

// ended notes when the batch ends that was formed, and goes on to the next one.
func (p *pipeline) ended(at unit.Seconds) {
	p.ends[p.turn%len(p.ends)] = at
	p.turn++
}

// next is when the next batch may begin.
func (p *pipeline) next() unit.Seconds { return max(p.free[0], p.end(p.most())) }

// enters lets the step into the pipeline now, and notes what it brings. Time and energy of its cost become those that it adds to the
// replica's: stages that work for other batches at the same time draw no power of waiting twice.
func (r *replica) enters(now unit.Seconds) {
	p, c := r.pipe, &r.cost
	*c = withHeadroom(*c, min(max(float64((now-r.stopped)/analytic.Window), 0), 1))
	before := max(now, r.stopped)
	r.begin, r.stopped = now, p.passes(now, c)
	r.end = p.next()
	adds := r.stopped - before
	c.Energy -= r.server.idle().For(c.Time - adds)
	c.Time = adds
	p.inflight = append(p.inflight, inflight{r.stopped, slices.Clone(r.gains), r.ending})
	r.held = p.inflight[0].end
}

// leaves takes the oldest batch of a replica from its pipeline. A replica that waited for that goes on.
func (c *cluster) leaves(r *replica) {
	p := r.pipe
	f := p.inflight[0]
	p.inflight = p.inflight[:copy(p.inflight, p.inflight[1:])]
	r.outputs = f.outputs
	c.output(r)
	r.free(f.ended)
	if len(p.inflight) > 0 {
		r.held = p.inflight[0].end
	}
	if !r.busy && r.end == 0 {
		c.start(r, c.now)
	}
}

// skips ends the turns of replicas in which none of their sequences may decode, and reports whether there is a turn in which one may.
func (c *cluster) skips(r *replica) bool {
	turn := math.MaxInt
	for _, p := range r.peers {
		for _, q := range p.running {
			if q.turn > p.pipe.turn {
				turn = min(turn, q.turn)
			}
		}
	}
	if turn == math.MaxInt {
		return false
	}
	for _, p := range r.peers {
		for p.pipe.turn < turn {
			p.pipe.ended(c.now)
		}
	}
	if r.end = r.pipe.next(); r.end <= c.now {
		c.start(r, c.now)
	}
	return true
}
