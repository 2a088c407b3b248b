package engine

import (
	"cmp"
	"sort"

	"llmprof/analytic"
	"llmprof/unit"
)

// A start is the settings of a command that an engine holds against its memory and against each other when it starts.
type start struct {
	budget    int // most tokens of a step
	longest   int // most tokens of a request
	sequences int // most sequences that run
}

// start is the settings of the command of the engine that is started, lowered where it would not start with them, and whether it starts
// then. Where the memory cannot be told it is taken to.
func (d *Deployment) start(budget, longest, sequences int) (start, bool) {
	s := start{budget, longest, sequences}
	p := d.served(sequences)
	if p == nil || d.starts.resolve == nil {
		return s, true
	}
	return s, d.starts.resolve(&s, d, p)
}

// served is the predictor of one replica by the engine that is started, whatever that of the estimate; nil where it cannot be told.
func (d *Deployment) served(sequences int) *analytic.Predictor {
	if d.Case == nil {
		return nil
	}
	c, e := *d.Case, d.starts
	c.Settings.Sequences = sequences
	if c.Machine.Engine.Profile().Engine() != e.profile.Name {
		var err error
		if c.Machine, err = analytic.Calibrated(c.Machine.GPU, e, nil); err != nil {
			return nil
		}
	}
	p, err := analytic.NewPredictor(&c)
	if err != nil {
		return nil
	}
	return p
}

// holds is how many requests of so many tokens the memory of a replica holds.
func (s *start) holds(p *analytic.Predictor, tokens int) int {
	m := p.Memory(&analytic.Workload{Batch: 1, PromptLen: max(tokens-1, 1), GenLen: 1, Budget: s.budget})
	return m.MaxBatch
}

// vllmResolve holds a command of vLLM to these rules, by the sources of 0.33:
//
//   - A step has a token for every sequence: verify_max_model_len, vllm/config/scheduler.py, line 331.
//   - Every sequence has a block of states in a CUDA graph of decode steps: vllm/config/compilation.py, line 1524.
//   - The cache holds one request of the longest length: _check_enough_kv_cache_memory, vllm/v1/core/kv_cache_planning.py, line 68.
//   - TP divides the heads of attention, and experts are there for --enable-expert-parallel: verify_with_parallel_config,
//     vllm/config/model.py, lines 1559 and 1567. The split was held to both when it was estimated (operator.Parallelism.CheckModel).
func vllmResolve(s *start, d *Deployment, p *analytic.Predictor) bool {
	s.sequences = min(s.sequences, s.budget)
	cache, known := p.Start(s.budget, s.sequences, s.longest)
	if scans(d.Model) && known && cache.Blocks < float64(s.sequences) {
		s.sequences = max(int(cache.Blocks), 1)
	}
	if known && cache.Requests < 1 && d.Request < s.longest {
		s.longest = d.Request
		cache, known = p.Start(s.budget, s.sequences, s.longest)
	}
	return !known || cache.Requests >= 1
}

// sglangResolve holds a command of SGLang to these rules, by the sources of 0.5.23:
//
//   - The pool has a token at least: MemoryPoolConfig, sglang/srt/model_executor/pool_configurator.py, line 95. A request that is longer
//     than the pool is refused later, so that it has to hold one of those that are planned for.
//   - States have slots for a request: mem_cache/kv_cache_configurator.py, lines 3152 and 3392. It runs no more than it has slots for, and
//     says so in a warning (line 3138).
//   - TP divides the heads, and heads of KV divide it or are divided by it: models/llama.py, lines 183 to 193. The split was held to it
//     when it was estimated.
//   - Chunks are a multiple of the pages of its cache, of up to 64 tokens: arg_groups/validation_hook.py, line 244.
func sglangResolve(s *start, d *Deployment, p *analytic.Predictor) bool {
	const page = 64
	if s.budget > page {
		s.budget -= s.budget % page
	}
	if most, pooled := p.MostSequences(s.budget); pooled {
		if most == 0 {
			return false
		}
		s.sequences = min(s.sequences, most)
	}
	cache, known := p.Start(s.budget, s.sequences, s.longest)
	if known && cache.Tokens > 0 {
		s.longest = min(s.longest, max(int(cache.Tokens), d.Request))
	}
	return !known || cache.Tokens >= float64(d.Request) || scans(d.Model) && cache.Tokens == 0
}

// longestThatFits lowers the longest request to those that are planned for where the memory holds none longer, and reports whether it
// holds one: TensorRT-LLM, whose executor is not created where memory does not suffice (_maybe_explain_if_oom,
// tensorrt_llm/_torch/pyexecutor/py_executor_creator.py, line 139 at commit 000429d), and whose answers would be cut short.
func longestThatFits(s *start, d *Deployment, p *analytic.Predictor) bool {
	if s.holds(p, s.longest) < 1 {
		s.longest = d.Request
	}
	return s.holds(p, s.longest) >= 1
}

// slotsThatFit lowers the slots of llama.cpp to those whose cache is allocated: "failed to allocate buffer for kv cache" (llama_kv_cache,
// src/llama-kv-cache.cpp) ends it.
func slotsThatFit(s *start, d *Deployment, p *analytic.Predictor) bool {
	s.budget = 0 // Passes have their own size.
	longestThatFits(s, d, p)
	s.sequences = min(s.sequences, s.holds(p, s.longest))
	return s.sequences >= 1
}

// ggmlSlots is the most slots that llama.cpp takes, LLAMA_MAX_SEQ (llama_context, src/llama-context.cpp, line 168 at commit 001d906).
const ggmlSlots = 256

// Starts say why a server of vLLM would not start with what was given and its own defaults for the rest, and which flag to change; nothing
// where nothing is known against it.
func Starts(c *analytic.Case, m *analytic.Memory) (all []unit.Warning) {
	e, _ := c.Machine.Engine.(*Engine)
	if e == nil || e.profile.Engine() != vllmScheduler.Name || !m.Fits() {
		return nil
	}
	p, err := analytic.NewPredictor(c)
	if err != nil {
		return nil
	}
	rules := e.schedulers[0].on(c.Machine.GPU)
	budget := cmp.Or(c.Workload.Budget, rules.Budget)
	sequences := min(cmp.Or(c.Settings.Sequences, rules.MaxSeqs), budget)
	longest := cmp.Or(c.Workload.Longest, c.Model.MaxContext, c.Workload.Context())
	if given := c.Workload.Budget; p.Whole() > 0 && given > 0 && given < longest {
		all = append(all, unit.Warn("start_refused", "vllm stops at start-up where --max-num-batched-tokens is below --max-model-len, since it "+
			"does not cut prompts: give {max_model_len} %d", given))
	}
	cache, known := p.Start(budget, sequences, longest)
	if !known {
		return all
	}
	if most := int(cache.Blocks); scans(c.Model) && !e.profile.Eager && most < sequences {
		all = append(all, unit.Warn("start_refused", "vllm stops at start-up where --max-num-seqs is above the %d blocks of states, and it is "+
			"%d: give {max_num_seqs} %d", most, sequences, most))
	}
	if cache.Requests < 1 {
		fits := sort.Search(longest, func(n int) bool {
			cache, _ := p.Start(budget, sequences, n+1)
			return cache.Requests < 1
		})
		all = append(all, unit.Warn("start_refused", "vllm stops at start-up where its cache does not hold one request of --max-model-len, "+
			"which is %d: give {max_model_len} %d", longest, fits))
	}
	return all
}
