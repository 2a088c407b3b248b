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

// schedulers has the known schedulers by name; an engine's default is named like the engine.
var schedulers = []Scheduler{
	{Name: "vllm", Budget: 8192, MaxSeqs: 1024, Block: 16, Mixed: true, Async: true},
	{Name: "vllm-2024", Budget: 32768, MaxSeqs: 256, Block: 16, Whole: true, Watermark: 0.01},
	{Name: "sglang", Budget: 8192, MaxSeqs: 4096, Block: 1, Admission: ForExpected, Async: true},
	{Name: "sglang-mixed", Budget: 8192, MaxSeqs: 4096, Block: 1, Admission: ForExpected, Mixed: true, Async: true},
	{Name: "tensorrt-llm", Budget: 8192, MaxSeqs: 2048, Block: 32, Admission: ForAll, Mixed: true, Async: true},
	{Name: "tensorrt-llm-max-utilization", Budget: 8192, MaxSeqs: 2048, Block: 32, Mixed: true, Async: true},
	{Name: "llama.cpp", Budget: 2048, Pass: 512, MaxSeqs: 4, Block: 1, Admission: ForSlot, Mixed: true},
}

// SchedulerNames lists the schedulers.
func SchedulerNames() []string {
	names := make([]string, len(schedulers))
	for i := range schedulers {
		names[i] = schedulers[i].Name
	}
	return names
}

// vllmSmall reports whether vLLM's server takes steps of 2048 tokens and 256 sequences on a GPU, and not of 8192 and 1024:
// on those with less than 70 GiB, and on every A100, whose throughput larger steps reduce (vllm/engine/arg_utils.py since pull
// request 17885).
func vllmSmall(g *hardware.GPU) bool {
	return g.Capacity() < 70*(1<<30) || strings.Contains(strings.ToLower(g.Name), "a100")
}

// SchedulerOf is the scheduler of a name, with its values on a GPU.
func SchedulerOf(name string, g *hardware.GPU) (Scheduler, error) {
	i := slices.IndexFunc(schedulers, func(s Scheduler) bool { return strings.EqualFold(s.Name, name) })
	if i < 0 {
		return Scheduler{}, fmt.Errorf("no scheduler %.40q is known (known: %s)", name, strings.Join(SchedulerNames(), ", "))
	}
	s := schedulers[i]
	switch {
	case s.Name == "vllm" && vllmSmall(g):
		s.Budget, s.MaxSeqs = 2048, 256
	case strings.HasPrefix(s.Name, "sglang"):
		s.Budget, _ = sglangSizes(g.Capacity(), 1)
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
