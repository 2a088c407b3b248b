package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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
}

// A sized scheduler has other values on some GPUs.
type sized struct {
	Scheduler
	fit func(*Scheduler, *hardware.GPU) // sets the values on a GPU; nil for no others
}

// schedulers has the known schedulers, each of which stands in the file of its engine; an engine's default is named
// like the engine.
var schedulers = []sized{
	vllmScheduler, vllm2024Scheduler, sglangScheduler, sglangMixedScheduler, tensorRTScheduler, tensorRTFullScheduler, llamaCPPScheduler,
}

// SchedulerNames lists the schedulers.
func SchedulerNames() []string {
	names := make([]string, len(schedulers))
	for i := range schedulers {
		names[i] = schedulers[i].Name
	}
	return names
}

// SchedulerOf is the scheduler of a name, with its values on a GPU.
func SchedulerOf(name string, g *hardware.GPU) (Scheduler, error) {
	i := slices.IndexFunc(schedulers, func(s sized) bool { return strings.EqualFold(s.Name, name) })
	if i < 0 {
		return Scheduler{}, fmt.Errorf("no scheduler %.40q is known (known: %s)", name, strings.Join(SchedulerNames(), ", "))
	}
	s := schedulers[i].Scheduler
	if fit := schedulers[i].fit; fit != nil {
		fit(&s, g)
	}
	return s, nil
}

// budget is the most tokens of a forward pass that the scheduler of a name forms.
func budget(name string) func(*hardware.GPU) int {
	return func(g *hardware.GPU) int {
		s, _ := SchedulerOf(name, g) // the engines name schedulers of the list
		return cmp.Or(s.Pass, s.Budget)
	}
}
