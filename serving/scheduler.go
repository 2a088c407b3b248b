package serving

import (
	"fmt"
	"slices"
	"strings"

	"llmprof/unit"
)

// An Admission says how many blocks have to be free before a request begins.
type Admission uint8

// The admissions.
const (
	ForPrompt   Admission = iota // those of the whole prompt: vLLM, TensorRT-LLM's max utilization
	ForAll                       // those of prompt and answer, so that none is evicted: TensorRT-LLM's guaranteed no evict
	ForExpected                  // those of the prompt and a share of all answers still due: SGLang
	ForSlot                      // a slot, which has a fixed share of the cache: llama.cpp
)

// A Scheduler is how an engine forms its steps.
type Scheduler struct {
	Name      string
	Budget    int     // most tokens of a step
	Pass      int     // most tokens of one forward pass of a step, as llama.cpp's --ubatch-size; 0 for the budget
	MaxSeqs   int     // most sequences that run
	Block     int     // tokens of a KV block
	Share     float64 // of the GPU's memory that the engine uses
	Admission Admission
	Watermark float64 // share of the blocks that stay free when a request is admitted
	Mixed     bool    // prompts and decodes share a step; else prompts go first, in steps of their own
	Whole     bool    // a prompt is not cut into chunks
	Swap      bool    // a preempted sequence's cache goes to host memory; else it is computed again
	Async     bool    // a step is scheduled while the one before it runs
}

// schedulers has those that are known, by their names; engines come first.
var schedulers = []Scheduler{
	{Name: "vllm", Budget: 2048, MaxSeqs: 256, Block: 16, Mixed: true, Async: true},
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

// largeMemory is from how much memory on vLLM's server takes steps of 8192 tokens and
// 1024 sequences (vllm/engine/arg_utils.py, 70 GiB).
const largeMemory = unit.Bytes(70 * (1 << 30))

// Defaults is the scheduler of a name with the values that it has on a GPU with so much
// memory.
func Defaults(name string, memory unit.Bytes) (Scheduler, error) {
	i := slices.IndexFunc(schedulers, func(s Scheduler) bool { return strings.EqualFold(s.Name, name) })
	if i < 0 {
		return Scheduler{}, fmt.Errorf("no scheduler %.40q is known (known: %s)", name, strings.Join(SchedulerNames(), ", "))
	}
	s := schedulers[i]
	s.Share = 1
	if s.Name == "vllm" && memory >= largeMemory {
		s.Budget, s.MaxSeqs = 8192, 1024
	}
	return s, nil
}

func (s *Scheduler) check() error {
	switch {
	case s.Budget < 1 || s.Budget > maxLength:
		return fmt.Errorf("a step of at most %d tokens: want from 1 to %d", s.Budget, maxLength)
	case s.MaxSeqs < 1 || s.MaxSeqs > 1<<20:
		return fmt.Errorf("at most %d sequences: want from 1 to %d", s.MaxSeqs, 1<<20)
	case s.Block < 1 || s.Block > 1<<16:
		return fmt.Errorf("KV blocks of %d tokens: want from 1 to %d", s.Block, 1<<16)
	case !(s.Share > 0 && s.Share <= 1):
		return fmt.Errorf("a share of %g of the memory: want above 0 and at most 1", s.Share)
	case !(s.Watermark >= 0 && s.Watermark < 1):
		return fmt.Errorf("a watermark of %g: want from 0 and below 1", s.Watermark)
	}
	return nil
}
