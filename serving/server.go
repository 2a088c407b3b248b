package serving

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/unit"
)

// A Server is what serves requests: replicas of a model, each with a scheduler of its own.
type Server struct {
	Predictor *analytic.Predictor
	Scheduler engine.Scheduler
	Routing   string // "round-robin", "least-loaded" or "prefix-aware"
	Context   int    // longest that the model takes, prompt and answer; 0 for no limit
	Layout
	Caching
	Speculation
}

// A Layout is how many replicas a server has.
type Layout struct {
	Replicas   int              // Replicas decode, and prefill unless there are Prefillers.
	Prefillers int              // Prefillers prefill and hand the cache over to those that decode.
	Link       unit.BytesPerSec // Link is the rate at which one GPU hands the cache over.
}

// Caching is how a replica keeps KV blocks.
type Caching struct {
	CacheTokens int // tokens that the KV cache of a replica holds, as the engine logs it; 0 to work it out

	HitRate float64    // share of the prompts' tokens that a prefix cache has, where requests have no hashes
	NoCache bool       // prefix caching is off
	Offload unit.Bytes // host memory on each GPU's behalf, for the cache of prefixes and preempted sequences
	ToHost  unit.BytesPerSec
}

// Speculation is how a server drafts tokens.
type Speculation struct {
	Drafts     int                 // tokens that are drafted and verified with each token
	Acceptance float64             // probability that a drafted token is right if those before it are
	Drafter    *analytic.Predictor // the model that drafts; nil if drafting takes no time, as from n-grams
	Modules    int                 // the model's own draft (MTP) modules, of which Drafter is one; 0 if it is another model
}

// Check returns what is wrong with the server, if anything is.
func (s *Server) Check() error {
	switch {
	case s.Predictor == nil:
		return fmt.Errorf("the server has no model")
	case s.Replicas < 1 || s.Replicas+s.Prefillers > 1<<14 || s.Prefillers < 0:
		return fmt.Errorf("%d replicas and %d that prefill: want from 1 to %d in all", s.Replicas, s.Prefillers, 1<<14)
	case !(s.HitRate >= 0 && s.HitRate < 1):
		return fmt.Errorf("a prefix hit rate of %g: want from 0 and below 1", s.HitRate)
	case s.Drafts < 0 || s.Drafts > 64:
		return fmt.Errorf("%d drafted tokens: want from 0 to 64", s.Drafts)
	case s.Drafts > 0 && !(s.Acceptance >= 0 && s.Acceptance <= 1):
		return fmt.Errorf("an acceptance of %g: want a probability", s.Acceptance)
	case s.Prefillers > 0 && s.Link <= 0:
		return fmt.Errorf("replicas that prefill hand the KV cache over: the rate of their link is not known")
	case (s.Offload > 0 || s.Scheduler.Swap) && s.ToHost <= 0:
		return fmt.Errorf("cache in host memory: the rate of the link to the host is not known")
	case !slices.Contains([]string{"", "round-robin", "least-loaded", "prefix-aware"}, s.Routing):
		return fmt.Errorf("routing is %.40q: want round-robin, least-loaded or prefix-aware", s.Routing)
	}
	if most, pooled := s.Predictor.MostSequences(s.Scheduler.Budget); pooled && most == 0 {
		return errors.New("no request can run: the memory that the weights leave has slots for the states of none")
	}
	switch rules := &s.Scheduler; {
	case rules.Budget < 1 || rules.Budget > maxLength:
		return fmt.Errorf("a step of at most %d tokens: want from 1 to %d", rules.Budget, maxLength)
	case rules.MaxSeqs < 1 || rules.MaxSeqs > 1<<20:
		return fmt.Errorf("at most %d sequences: want from 1 to %d", rules.MaxSeqs, 1<<20)
	case rules.Block < 1 || rules.Block > 1<<16:
		return fmt.Errorf("KV blocks of %d tokens: want from 1 to %d", rules.Block, 1<<16)
	case !(rules.Watermark >= 0 && rules.Watermark < 1):
		return fmt.Errorf("a watermark of %g: want from 0 and below 1", rules.Watermark)
	}
	return s.room().check(s)
}

// A kvBlocks is the KV cache of a replica in blocks.
type kvBlocks struct {
	blocks int
	size   int        // tokens of a block
	each   unit.Bytes // bytes of one block on one GPU
	logged float64    // tokens that the engine's log counts for a block
	linear bool       // a sequence takes a block for every size tokens
	bytes  func(context float64) unit.Bytes
}

// room works out the KV cache. A sequence of a model with windows or a state takes as many
// blocks as its bytes fill.
func (s *Server) room() *kvBlocks {
	p, block := s.Predictor, s.Scheduler.Block
	r := &kvBlocks{size: block, bytes: p.SequenceBytes}
	draft := unit.Bytes(0)
	if d := s.Drafter; d != nil && s.Modules == 0 { // The weights and the cache of modules are among the model's.
		draft, _ = d.Weights()
		r.bytes = func(context float64) unit.Bytes { return p.SequenceBytes(context) + d.SequenceBytes(context) }
	}
	state := r.bytes(0)
	r.each = r.bytes(float64(block)) - state
	r.linear = state == 0 && len(p.Windows()) == 0
	if r.each <= 0 { // there is a state alone
		r.each = state
	}
	pass := cmp.Or(s.Scheduler.Pass, s.Scheduler.Budget) // what buffers are as large as
	sequences := min(s.Scheduler.MaxSeqs, pass)
	memory := p.CacheMemory(pass, sequences)
	r.blocks = int(min(max(math.Floor(float64(memory-draft)/float64(r.each)), 0), math.MaxInt32))
	r.logged = float64(block)
	if !r.linear {
		if start, known := p.Start(pass, sequences, cmp.Or(s.Context, maxLength)); known && start.Tokens > 0 {
			r.logged = start.Tokens * float64(r.each/memory)
		}
	}
	if s.CacheTokens > 0 {
		r.blocks = int(float64(s.CacheTokens) / r.logged)
	}
	return r
}

func (r *kvBlocks) check(s *Server) error {
	if r.blocks > 0 {
		return nil
	}
	if s.CacheTokens > 0 {
		return fmt.Errorf("KV cache of %d tokens: want at least a block of %.0f", s.CacheTokens, math.Ceil(r.logged))
	}
	return fmt.Errorf("nothing is left of the GPU's memory for a KV cache beside the weights and steps of %d tokens: give more GPUs, "+
		"narrower weights or smaller steps",
		s.Scheduler.Budget)
}

// of is the blocks of a sequence of context tokens.
func (r *kvBlocks) of(context int) int {
	if r.linear {
		return (context + r.size - 1) / r.size
	}
	return int(math.Ceil(float64(r.bytes(float64(r.whole(context)))) / float64(r.each) * (1 - 1e-12)))
}

// whole is the longest context that takes as many blocks.
func (r *kvBlocks) whole(context int) int { return (context + r.size - 1) / r.size * r.size }

// longest is the longest sequence that one replica can ever hold.
func (s *Server) longest(r *kvBlocks) int {
	blocks := r.blocks
	if s.Scheduler.Admission == engine.ForSlot {
		blocks /= s.Scheduler.MaxSeqs
	}
	most := cmp.Or(s.Context, maxLength)
	return sort.Search(most, func(i int) bool { return r.of(i+1) > blocks })
}

// kept is how many of the KV blocks stay free when a sequence begins.
func (s *Server) kept(blocks int) int { return int(s.Scheduler.Watermark * float64(blocks)) }

// beyondWatermark says that no request of so many tokens can begin, however empty the cache is.
func (s *Server) beyondWatermark(r *kvBlocks, tokens int) error {
	return fmt.Errorf("%d tokens take %d KV blocks, and a watermark of %g lets a request begin in at most %d of %d",
		tokens, r.of(tokens), s.Scheduler.Watermark, r.blocks-s.kept(r.blocks), r.blocks)
}

// Yields is the mean of the tokens that a decode step gains for a sequence: a draft is right only if those before it are.
func (s *Speculation) Yields() float64 {
	mean, chance := 1.0, 1.0
	for range s.Drafts {
		chance *= s.Acceptance
		mean += chance
	}
	return mean
}

// gainsVary reports whether steps gain different numbers of tokens for a sequence.
func (s *Speculation) gainsVary() bool { return s.Drafts > 0 && s.Acceptance > 0 && s.Acceptance < 1 }

// cached is how many tokens of a prompt a prefix cache has by the hit rate: whole blocks,
// and not the last token, which has to run to predict the next.
func (s *Server) cached(prompt int) int {
	hit := int(s.HitRate * float64(prompt))
	return min(hit/s.Scheduler.Block*s.Scheduler.Block, prompt-1)
}

// Tokens is the capacity of the KV cache of a replica as the engine's log states it.
func (s *Server) Tokens() int {
	r := s.room()
	return int(math.Round(float64(r.blocks) * r.logged))
}
