package serving

import "math"

// Replicas that share experts step side by side: a step takes as long as that of the replica with most to do, and replicas without work
// run a token. All of them are one queue: n sequences are spread evenly over them, and prompts go to one replica after the other.

// each is how many of n sequences the replica with most of them has.
func (f *flow) each(n int) int { return int(math.Ceil(float64(n) / f.peers)) }

// besides is how many sequences decode in the step of a replica with prompts, of n in all.
func (f *flow) besides(n int) int {
	if f.transferred || f.server.Scheduler.Mixed {
		return f.each(n)
	}
	return 0
}

// lockstep is a step of all replicas: replicas that only decode wait for those with prompts.
func (f *flow) lockstep(n int, tokens float64) Cost {
	prompts := math.Ceil(tokens/f.uncached.mean - 1e-9)
	each, busy := f.each(n), min(prompts, f.peers)
	epTokens := float64(n*(1+f.server.Drafts)) + tokens + max(f.peers-max(float64(n), busy), 0) // one that has nothing runs a token
	decode := max(min(float64(n), f.peers)-busy, 0)
	var c Cost
	var work [3]Cost // costs of replicas with prompts, with decodes alone, and without work
	if busy == 0 || decode > 0 {
		c = f.replica(each, 0, n, epTokens)
		work[1] = c
	}
	if busy > 0 {
		c = f.replica(f.besides(n), tokens/busy, n, epTokens)
		work[0] = c
	}
	c.Energy, c.Headroom.Energy = 0, c.Headroom.Energy.Times(f.peers)
	for i, replicas := range []float64{busy, decode, f.peers - busy - decode} {
		c.Energy += (work[i].Energy + f.server.idle().For(c.Time-work[i].Time)).Times(replicas)
	}
	return c
}
