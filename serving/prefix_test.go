package serving

import (
	"math/rand/v2"
	"slices"
	"testing"

	"llmprof/analytic"
	"llmprof/internal/testkit/casetest"
	"llmprof/unit"
)

// conversations are requests of which several begin alike, in the order of their arrival.
func conversations(n int) Source {
	r := rand.New(rand.NewPCG(5, 5))
	var all []Request
	at := 0.0
	for i := range n {
		at += r.ExpFloat64() / 6
		blocks := 1 + r.IntN(6)
		topic := uint64(r.IntN(8))
		q := Request{At: unit.Seconds(at), Prompt: blocks*512 + 100, Gen: 40, HashTokens: 512}
		for b := range blocks {
			hash := topic*1000 + uint64(b)
			if b >= 3 { // the rest is its own
				hash = 1<<32 + uint64(i*10+b)
			}
			q.Hashes = append(q.Hashes, hash)
		}
		all = append(all, q)
	}
	return Replay(all)
}

// prefixRun runs conversations, and holds that no block is lost.
func prefixRun(t *testing.T, change func(*Server)) *Result {
	t.Helper()
	s := server(t, "llama3.1-8b", "h200", 1, "vllm")
	s.ToHost, s.Link = 50e9, 400e9
	change(s)
	c := newCluster(s, conversations(400), &Options{})
	for c.step() {
	}
	for _, r := range slices.Concat(c.mixed, c.first) {
		cached := 0
		for _, e := range r.pool.entries {
			if e.users != 0 {
				t.Errorf("an entry has %d users after the last request", e.users)
			}
			if !e.host {
				cached += e.blocks
			}
		}
		if r.pool.free+cached != r.pool.total || cached != r.pool.idle.blocks {
			t.Errorf("%d blocks free and %d cached (%d in the list) of %d", r.pool.free, cached, r.pool.idle.blocks, r.pool.total)
		}
	}
	c.result.finish(c.all, c.now, false)
	if c.result.Completed != 400 {
		t.Errorf("%d of 400 requests answered", c.result.Completed)
	}
	return c.result
}

// Prefixes that are in the cache need no prefill; a small cache forgets them, and host
// memory keeps what it forgets.
func TestPrefixCache(t *testing.T) {
	with := prefixRun(t, func(*Server) {})
	without := prefixRun(t, func(s *Server) { s.NoCache = true })
	small := prefixRun(t, func(s *Server) { s.CacheTokens = 12000 })
	host := prefixRun(t, func(s *Server) { s.CacheTokens, s.Offload = 12000, 8e9 })
	if without.Cached != 0 || with.Cached == 0 || with.TTFT.Mean() >= without.TTFT.Mean() {
		t.Errorf("%d tokens found and TTFT %g s with a cache, %d and %g s without", with.Cached, with.TTFT.Mean(), without.Cached,
			without.TTFT.Mean())
	}
	if small.Cached >= with.Cached || host.Cached <= small.Cached {
		t.Errorf("%d tokens found in a large cache, %d in a small one, %d with host memory", with.Cached, small.Cached, host.Cached)
	}
}

// Routing by prefixes finds more of them than taking turns.
func TestPrefixAwareRouting(t *testing.T) {
	turns := prefixRun(t, func(s *Server) { s.Replicas, s.CacheTokens = 4, 14000 })
	aware := prefixRun(t, func(s *Server) { s.Replicas, s.CacheTokens, s.Routing = 4, 14000, "prefix-aware" })
	if aware.Cached <= turns.Cached {
		t.Errorf("%d tokens found by prefix, %d by turns", aware.Cached, turns.Cached)
	}
}

// Replicas that prefill hand the cache over: the first token waits for no decode, and a slow link
// delays the second.
func TestDisaggregation(t *testing.T) {
	fast := prefixRun(t, func(s *Server) { s.Prefillers = 1 })
	slow := prefixRun(t, func(s *Server) { s.Prefillers, s.Link = 1, 1e9 })
	if slow.E2E.Mean() <= fast.E2E.Mean()+0.1 || slow.TTFT.Mean() != fast.TTFT.Mean() {
		t.Errorf("E2E %g s and TTFT %g s over a slow link, %g and %g over a fast one", slow.E2E.Mean(), slow.TTFT.Mean(), fast.E2E.Mean(),
			fast.TTFT.Mean())
	}
}

// A module of the model that drafts takes time in steps of prompts too, holds weights and cache, and
// the steady state has it.
func TestDraftModule(t *testing.T) {
	free := server(t, "glm-4.5-air", "h200", 4, "vllm")
	free.Drafts, free.Acceptance = 2, 0.8
	own := *free
	c := casetest.Case(t, "glm-4.5-air", "h200", 1, 4)
	c.Model, c.Machine = c.Model.DraftModule(), casetest.Machine(t, "h200", "vllm")
	p, err := analytic.NewPredictor(c)
	if err != nil {
		t.Fatal(err)
	}
	own.Drafter, own.Modules = p, 1
	target := casetest.Case(t, "glm-4.5-air", "h200", 1, 4)
	target.Machine = c.Machine
	target.Settings.Drafts, target.Settings.OwnDrafts = own.Drafts, true
	if own.Predictor, err = analytic.NewPredictor(target); err != nil {
		t.Fatal(err)
	}
	if own.Tokens() >= free.Tokens() {
		t.Errorf("a cache of %d tokens with the module, %d without", own.Tokens(), free.Tokens())
	}
	l := poisson(2, 1000, 200, 300)
	l.Gen = Lengths{Kind: "uniform", Low: 100, High: 300}
	with, without := simulate(t, &own, l, Options{}), simulate(t, free, l, Options{})
	if with.TTFT.Mean() <= without.TTFT.Mean() || with.TPOT.Mean() <= without.TPOT.Mean() {
		t.Errorf("TTFT %g and TPOT %g s with the module, %g and %g without", with.TTFT.Mean(), with.TPOT.Mean(), without.TTFT.Mean(),
			without.TPOT.Mean())
	}
	st, err := own.SteadyRate(t.Context(), 2, l.Prompt, l.Gen)
	if err != nil {
		t.Fatal(err)
	}
	agree(t, "TPOT", float64(st.TPOT), with.TPOT.Mean(), 0.07)
	agree(t, "TTFT", float64(st.TTFT), with.TTFT.Mean(), 0.07)
}

// Drafted tokens gain what the acceptance says.
func TestSpeculation(t *testing.T) {
	s := server(t, "llama3.1-8b", "h200", 1, "vllm")
	s.Drafts, s.Acceptance = 3, 0.7
	plain := server(t, "llama3.1-8b", "h200", 1, "vllm")
	l := poisson(1, 500, 400, 300)
	got, want := simulate(t, s, l, Options{}).TPOT.Mean(), simulate(t, plain, l, Options{}).TPOT.Mean()/s.Yields()
	if got < want || got > 1.25*want {
		t.Errorf("TPOT %g s with 3 drafted tokens, want a little over %g s", got, want)
	}
}
