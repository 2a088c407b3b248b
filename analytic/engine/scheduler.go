package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"llmprof/analytic"
	"llmprof/hardware"
)

// An Admission says how many KV blocks have to be free before a request starts.
type Admission uint8

// The admissions.
const (
	ForPrompt   Admission = iota // blocks for the whole prompt: vLLM, TensorRT-LLM's max utilization
	ForAll                       // blocks for prompt and answer: TensorRT-LLM's guaranteed no evict
	ForExpected                  // blocks for the prompt and for a share of all outstanding answers: SGLang
	ForSlot                      // a slot, which has a fixed share of the cache: llama.cpp
)

// A Scheduler is how an engine forms its steps by default.
type Scheduler struct {
	Name      string
	Budget    int // most tokens of a step
	Pass      int // most tokens of one forward pass of a step (llama.cpp's --ubatch-size); 0 for the budget
	MaxSeqs   int // most sequences that run
	Block     int // tokens of a KV block
	Admission Admission
	Watermark float64 // share of the blocks that stay free when a request is admitted
	Mixed     bool    // prompts and decodes share a step; else prompts run first, in separate steps
	Whole     bool    // a prompt is not cut into chunks
	Swap      bool    // a preempted sequence's cache goes to host memory; else it is computed again
	Async     bool    // a step is scheduled while the one before it runs
	Receives  int     // decode steps after which it receives new requests; 0 where that cannot be set, and every step receives them
	Streams   int     // tokens that are sent to a client at once, but for the first and the last; 0 where that cannot be set
}

// Within bounds the sequences that run by the states that an engine has slots for, where its states have a pool.
func (s *Scheduler) Within(p *analytic.Predictor) {
	if most, pooled := p.MostSequences(s.Budget); pooled {
		s.MaxSeqs = min(s.MaxSeqs, most)
	}
}

// A sized scheduler has other values on some GPUs.
type sized struct {
	Scheduler
	fit func(*Scheduler, *hardware.GPU) // sets the values on a GPU; nil for no others
}

// on is the scheduler with its values on a GPU.
func (s sized) on(g *hardware.GPU) Scheduler {
	own := s.Scheduler
	if s.fit != nil {
		s.fit(&own, g)
	}
	return own
}

// pass is the most tokens of a forward pass on a GPU.
func (s sized) pass(g *hardware.GPU) int {
	own := s.on(g)
	return cmp.Or(own.Pass, own.Budget)
}

// schedulers lists the known schedulers. An engine's default is named like the engine.
func schedulers() (list []sized) {
	for _, e := range all() {
		list = append(list, e.schedulers...)
	}
	return list
}

// SchedulerNames lists the schedulers.
func SchedulerNames() (names []string) {
	for _, s := range schedulers() {
		names = append(names, s.Name)
	}
	return names
}

// SchedulerOf is the scheduler of a name, with its values on a GPU and, where it is one of the engine's, at the engine's release.
func SchedulerOf(name string, of analytic.Engine, g *hardware.GPU) (Scheduler, error) {
	known := schedulers()
	if e, ok := of.(*Engine); ok {
		known = append(slices.Clone(e.schedulers), known...)
	}
	for _, s := range known {
		if strings.EqualFold(s.Name, name) {
			return s.on(g), nil
		}
	}
	return Scheduler{}, fmt.Errorf("no scheduler %.40q is known (known: %s)", name, strings.Join(SchedulerNames(), ", "))
}
