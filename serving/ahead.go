package serving

import (
	"slices"

	"llmprof/unit"
)

// Between the arrival of a request and the end of an answer a replica does the same step again and again, with one token more of each
// sequence. Such steps are worked out ahead of their time without the events of each. They are taken when something happens to
// the replica: when a request comes, or when the last of them has ended.

// A foreseen is a step of a replica that was worked out ahead.
type foreseen struct {
	begin, end, launched unit.Seconds
	expect               float64
	cost                 Cost
}

// mostAhead is how many steps are worked out ahead at most: those after the next arrival are worked out in vain.
const mostAhead = 256

// settle notes what happens next to replicas that step together. Where nobody asks for the times of single tokens it works out steps ahead.
func (c *cluster) settle(r *replica) {
	for _, p := range r.peers {
		c.next[p.index] = p.upcoming()
	}
	if n := c.alike(r.peers); n > 1 && c.options.sums && !c.options.stepwise {
		c.foresee(r.peers, n)
	}
}

// alike is how many further steps of replicas that step together are like the one that runs, but for a token more of each sequence.
func (c *cluster) alike(peers []*replica) int {
	n := mostAhead
	for _, p := range peers {
		if !p.decodes() {
			return 0
		}
		n = p.alike(n, c.now)
	}
	return n
}

// decodes reports whether a step runs that decodes all sequences of a replica, ends none of them, and leaves the host and the API server
// nothing to do, and whether no request can begin after it.
func (r *replica) decodes() bool {
	f := &r.front
	return r.busy && r.draft == nil && r.server.Drafts == 0 && len(r.batch.chunks) == 0 && r.batch.decodes == len(r.running) &&
		len(r.ending) == 0 && r.held == 0 &&
		!f.passing && !f.busy() && (r.waiting.n == 0 || len(r.running) >= r.rules.MaxSeqs)
}

// alike is how many of the next n steps end no answer, have no sequence whose context passes the end of a window, and need no block that
// is not free.
func (r *replica) alike(n int, now unit.Seconds) int {
	for _, q := range r.running {
		if !q.decoding() || q.ready > now {
			return 0
		}
		if n = min(n, q.Request.Gen-q.generated-1); n <= 0 {
			return 0
		}
		for _, w := range r.prices.windows {
			if past := q.computed - 1; float64(past) < w {
				n = min(n, int(w)-q.computed)
			}
		}
	}
	return min(n, r.blocksFor(n))
}

// blocksFor is in how many of the next n steps that decode there are free blocks for all sequences, or a few less where sequences hold a
// state, whose blocks are not in proportion to their context.
func (r *replica) blocksFor(n int) int {
	if r.pool.free >= len(r.running)*(1+n/r.room.size) { // more than all of them may need
		return n
	}
	var need [mostAhead]int // blocks of sequences that need one in the step after so many others
	for _, q := range r.running {
		if left := q.holds - q.computed; left < n {
			need[max(left, 0)]++
		}
	}
	each, free := r.room.size, r.pool.free
	for i := range n {
		if free -= need[i]; free < 0 {
			return i
		}
		if i+each < n {
			need[i+each] += need[i]
		}
	}
	return n
}

// foresee works out the next n steps of replicas, or as many until the API server takes longer than a step.
func (c *cluster) foresee(peers []*replica, n int) {
	c.copies = slices.Grow(c.copies[:0], len(peers))[:len(peers)]
	for i, p := range peers {
		one := &c.copies[i]
		byWin := one.batch.byWin
		*one = *p
		one.batch.byWin = append(byWin[:0], p.batch.byWin...)
	}
	lead := &c.copies[0]
	for range n {
		c.again(lead.end, max(lead.begin, lead.launched))
		if lead.end-lead.begin <= c.sends(peers) {
			break
		}
		for i, p := range peers {
			x := &c.copies[i]
			p.ahead = append(p.ahead, foreseen{x.begin, x.end, x.launched, x.expect, x.cost})
		}
	}
	if k := len(peers[0].ahead); k > 0 {
		for _, p := range peers {
			c.next[p.index].at = p.ahead[k-1].end
		}
	}
}

// again lets copies of replicas do their step again, after one that ends now, with a token more of each sequence.
func (c *cluster) again(now, formed unit.Seconds) {
	tokens := 0.0
	for i := range c.copies {
		p := &c.copies[i]
		p.stopped, p.overlaps = now, p.rules.Async
		p.batch.longer(1)
		p.settles()
		tokens += max(p.batch.tokens(0), 1)
	}
	if !c.copies[0].rules.Async {
		formed = now
	}
	longest := Cost{}
	for i := range c.copies {
		p := &c.copies[i]
		p.cost = Cost{}
		if len(c.copies) > 1 {
			p.batch.together = tokens
		}
		if !p.batch.empty() {
			p.cost = p.price()
		}
		if i == 0 || p.cost.Time > longest.Time {
			longest = p.cost
		}
	}
	for i := range c.copies {
		c.copies[i].launch(now, formed, &longest)
	}
}

// longer gives each sequence that decodes so many tokens more.
func (b *batch) longer(tokens int) {
	b.past += float64(tokens * b.decodes)
	for i := range b.byWin {
		g := &b.byWin[i]
		g.Past += float64(tokens) * g.Batch
	}
}

// sends is the time for which the API servers of replicas take apart and send the tokens of a step, and a little more.
func (c *cluster) sends(peers []*replica) (time unit.Seconds) {
	for _, p := range peers {
		time = max(time, p.front.token.Times(float64(len(p.running))*(1+1e-9)))
	}
	return time
}

// catchUp takes the steps of replicas that were worked out ahead and whose tokens were sent before a time, and drops the others. Events
// that come before those of a replica at that time come by themselves then.
func (c *cluster) catchUp(peers []*replica, at unit.Seconds, before int) {
	if len(peers[0].ahead) == 0 {
		return
	}
	n, sends := 0, c.sends(peers)
	for n < len(peers[0].ahead) && peers[0].ahead[n].begin+sends < at {
		for _, p := range peers {
			s := &p.ahead[n]
			p.stopped, p.begin, p.end, p.launched, p.expect, p.cost = s.begin, s.begin, s.end, s.launched, s.expect, s.cost
			c.result.step(p, c.options)
		}
		n++
	}
	for _, p := range peers {
		p.ahead = p.ahead[:0]
		p.pass(n)
	}
	now := c.now
	for {
		next, who := upcoming{at: never}, peers[0]
		for _, p := range peers {
			if x := p.upcoming(); x.at < next.at {
				next, who = x, p
			}
		}
		if next.at > at || next.at == at && who.index >= before {
			break
		}
		c.now = next.at
		c.happens(who, next.what)
	}
	c.now = now
}

// pass gives all sequences of a replica the tokens of n steps that decode.
func (r *replica) pass(n int) {
	if n == 0 {
		return
	}
	for i, q := range r.running {
		if q.computed+n > q.holds {
			r.grow(q, n, i, 0)
		}
		q.computed, q.goal, q.generated = q.computed+n, q.goal+n, q.generated+n
	}
	r.due -= n * len(r.running)
	r.batch.longer(n)
}

// catchUpAll lets all replicas catch up with an event of one of them, which comes now.
func (c *cluster) catchUpAll(with int) {
	for _, p := range c.mixed {
		if p == p.peers[0] && len(p.ahead) > 0 {
			c.catchUp(p.peers, c.now, with)
			c.settle(p)
		}
	}
}
