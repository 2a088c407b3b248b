package experiment

import (
	"fmt"
	"slices"
	"strings"

	"llmprof/measure/spelling"
)

// regroup reads LLM Energy Measure's tables whose members mean something
// together only, of the joined files.
func (r *reader) regroup(n *node) {
	r.without(n)
	r.prompts(n)
	r.batching(n)
	r.sharding(n)
	r.quantization(n)
	r.decoder(n)
	r.latency(n)
	r.rate(n)
}

// prompts turns a number of prompts into requests, or into passes of a batch.
func (r *reader) prompts(n *node) {
	v := n.take("num_input_prompts")
	if v == nil {
		return
	}
	count, ok := whole(v.scalar)
	if !ok || count < 1 || count > mostCount {
		r.wrong(v.at.mistake("num_input_prompts: %s: want a whole number from 1 to %d", v.what(), mostCount))
		return
	}
	if engine := n.get("engine"); engine != nil && engine.scalar == OpenAI {
		r.become(n, "num_input_prompts", pair{"requests", v.at, v})
		return
	}
	batch := uint64(1)
	if b := n.get("batch"); b != nil {
		if size, ok := whole(b.scalar); ok && size > 0 {
			batch = size
		}
	}
	repeats := (count + batch - 1) / batch
	r.warn(v.at, "num_input_prompts: %d prompts in batches of %d are read as repeats = %d; more are run where the energy counters need them", count, batch, repeats)
	r.become(n, "num_input_prompts", pair{"repeats", v.at, &node{at: v.at, scalar: int64(repeats)}})
}

func (r *reader) batching(n *node) {
	if b := r.members(n, "batching_options", "batch_size", "dynamic_batching"); b != nil && r.truth(b, "batching_options", "dynamic_batching") {
		r.wrong(b.get("dynamic_batching").at.mistake("batching_options.dynamic_batching: batches here are of one size; a server batches as requests come: engine = \"openai\" with concurrency"))
	}
}

// sharding turns a strategy and a number of shards into degrees.
func (r *reader) sharding(n *node) {
	s := r.members(n, "sharding_config", "strategy", "num_shards")
	if s == nil {
		return
	}
	shards := s.get("num_shards")
	if shards == nil {
		shards = &node{at: s.at, scalar: int64(1)}
	}
	strategy := s.get("strategy")
	if strategy == nil {
		strategy = &node{at: s.at, scalar: "none"}
	}
	switch strategy.scalar {
	case "none":
		if count, ok := whole(shards.scalar); !ok || count > 1 {
			r.wrong(shards.at.mistake("sharding_config.num_shards: %s without a strategy: give strategy = \"tensor_parallel\", or 1", shards.what()))
		}
	case "tensor_parallel":
		r.become(n, "sharding_config", pair{"tp", s.at, shards})
	case "pipeline_parallel":
		r.wrong(strategy.at.mistake("sharding_config.strategy: pipelines are not run by the engines here; a server may do it: engine = \"openai\""))
	default:
		known := []string{"none", "tensor_parallel", "pipeline_parallel"}
		r.wrong(strategy.at.mistake("sharding_config.strategy: %s; %s", strategy.what(), spelling.Hint(fmt.Sprint(strategy.scalar), known)))
	}
}

func (r *reader) quantization(n *node) {
	q := n.get("quantization_config")
	if q == nil {
		return
	}
	n.take("quantization_config")
	if q.kind != tableKind {
		r.wrong(q.at.mistake("quantization_config: %s: want a table", q.what()))
		return
	}
	const of = "quantization_config"
	known := []string{"quantization", "load_in_4bit", "load_in_8bit"}
	for _, p := range q.pairs {
		switch {
		case strings.HasPrefix(p.key, "bnb_"):
			r.warn(p.at, "%s.%s has no effect: bitsandbytes runs with its own defaults", of, p.key)
		case !slices.Contains(known, p.key):
			r.wrong(p.at.mistake("%s.%s is not known; %s", of, p.key, spelling.Hint(p.key, known)))
		}
	}
	four, eight := r.truth(q, of, "load_in_4bit"), r.truth(q, of, "load_in_8bit")
	asked := q.get("quantization")
	on := asked == nil || r.truth(q, of, "quantization")
	switch {
	case four && eight:
		r.wrong(q.at.mistake("%s: load_in_4bit and load_in_8bit: want one of them", of))
	case on && four:
		r.become(n, of, pair{"quantization", q.at, &node{at: q.get("load_in_4bit").at, scalar: "int4"}})
	case on && eight:
		r.become(n, of, pair{"quantization", q.at, &node{at: q.get("load_in_8bit").at, scalar: "int8"}})
	case asked != nil && on:
		r.wrong(asked.at.mistake("%s.quantization: to how many bits? Give load_in_4bit or load_in_8bit", of))
	case four || eight:
		r.warn(q.at, "%s: load_in_4bit and load_in_8bit have no effect, since quantization is false", of)
	}
}

// decoder warns of how tokens would be chosen.
func (r *reader) decoder(n *node) {
	d := r.members(n, "decoder_config", "temperature", "top_p", "top_k", "do_sample", "repetition_penalty")
	if d == nil {
		return
	}
	for _, p := range d.pairs {
		r.warn(p.at, "decoder_config.%s has no effect: each engine here chooses tokens in its one way, and all generate gen_len of them", p.key)
	}
}

func (r *reader) latency(n *node) {
	l := n.take("latency_simulation")
	if l == nil {
		return
	}
	if l.kind != tableKind {
		r.wrong(l.at.mistake("latency_simulation: %s: want a table", l.what()))
		return
	}
	if r.truth(l, "latency_simulation", "enabled") {
		r.wrong(l.get("enabled").at.mistake("latency_simulation: delays are not made up here; for requests that come at random times give engine = \"openai\" and request_rate_hz"))
		return
	}
	r.warn(l.at, "latency_simulation has no effect: it is off")
}

// rate drops the rate of requests that every one of their files has, where
// nobody sends requests.
func (r *reader) rate(n *node) {
	v := n.get("request_rate_hz")
	if v == nil {
		return
	}
	if engine := n.get("engine"); engine != nil && engine.scalar == OpenAI {
		return
	}
	if v.legacy {
		n.take("request_rate_hz")
		r.warn(v.at, "query_rate has no effect: nobody sends requests to this engine, which is run in passes; for a server give engine = \"openai\"")
	}
}
