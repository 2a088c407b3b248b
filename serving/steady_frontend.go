package serving

import "math"

// enters is by how much longer than on an idle server the API server keeps a request that comes while n sequences decode in steps of a mean length. Its
// event loop takes a request through several passes, and what else is ready is done in each of them, so that requests have a lower priority than tokens
// in an M/G/1 queue (Cobham 1954): a request waits for what is left of the work with tokens that is under way, and both take longer by the work that
// comes meanwhile. A request waits for no more than its passes, each of which is no longer than all work that comes in a step.
func (f *flow) enters(n, rate, step float64) float64 {
	if f.front.free() || step == 0 {
		return 0
	}
	n, rate = n/f.peers, rate/f.peers
	half, closing, intake := 0.5*float64(f.front.token), float64(f.front.closing), float64(f.front.intake)
	ends := rate * step
	apart, sends := n*half*f.server.yields(), n*half+ends*closing
	left := (apart*apart + sends*sends + ends*closing*closing) / (2 * step)
	load, pass := f.front.load(rate, f.gen), step
	wait := math.Inf(1)
	if load < 1 {
		wait, pass = (left+intake)/(1-load)-intake, load*step
	} else if rest := 1 - rate*(intake+f.gen*half+closing); rest > 0 { // a pass lasts until so many steps have ended that their tokens are sent together
		pass = step * rate * f.gen * half / rest
	}
	return min(wait, (stages+0.5)*pass)
}

// holding is the share of its time from which on an API server lets prompts come in groups, which the product form of Poisson arrivals does not have.
const holding = 0.4

// holdsUp reports whether the API server of a replica lets prompts come in groups at a rate, so that requests are followed through it. Replicas that share
// experts or get the cache of prompts are not followed.
func (f *flow) holdsUp(rate float64) bool {
	return !f.handed && f.peers == 1 && f.front.load(rate, f.gen) >= holding
}

// throughServer is the steady state at a rate where requests are followed through the API server.
func (f *flow) throughServer(rate float64) *Steady {
	visits := f.visits(rate)
	all := f.visitsOf(visits)
	defer visitBuffers.Put(all)
	f.comeTo(*all, rate)
	return f.follow(*all, visits/16, f.newEventLoop(nil)).state(rate, 0)
}
