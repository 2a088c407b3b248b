package compat

import (
	"fmt"
	"strings"

	"llmprof/internal/spelling"
	"llmprof/internal/tree"
)

// Joined reads LLM Energy Measure's tables whose members have a meaning only
// together, after the files are joined.
func (t *Translator) Joined(n *tree.Node) {
	t.without(n)
	t.prompts(n)
	t.batching(n)
	t.sharding(n)
	t.quantization(n)
	t.decoder(n)
	t.latency(n)
	t.rate(n)
}

// prompts turns a number of prompts into requests, or into passes of a batch.
func (t *Translator) prompts(n *tree.Node) {
	v := n.Take("num_input_prompts")
	if v == nil {
		return
	}
	count, ok := tree.Whole(v.Scalar)
	if !ok || count < 1 || count > tree.MostCount {
		t.Wrong(v.At.Errorf("num_input_prompts: %s: want a whole number from 1 to %d", v.What(), tree.MostCount))
		return
	}
	if engine := n.Get("engine"); engine != nil && engine.Scalar == openAI {
		t.become(n, "num_input_prompts", tree.Pair{Key: "requests", At: v.At, Value: v})
		return
	}
	batch := uint64(1)
	if b := n.Get("batch"); b != nil {
		if size, ok := tree.Whole(b.Scalar); ok && size > 0 {
			batch = size
		}
	}
	repeats := (count + batch - 1) / batch
	t.Warn(v.At, "num_input_prompts: %d prompts in batches of %d are read as repeats = %d; more are run where the energy counters need them",
		count, batch, repeats)
	t.become(n, "num_input_prompts", tree.Pair{Key: "repeats", At: v.At, Value: &tree.Node{At: v.At, Scalar: int64(repeats)}})
}

func (t *Translator) batching(n *tree.Node) {
	if b := t.members(n, "batching_options", "batch_size", "dynamic_batching"); b != nil &&
		t.truth(b, "batching_options", "dynamic_batching") {
		t.Wrong(b.Get("dynamic_batching").At.Errorf(
			"batching_options.dynamic_batching: batches here are of one size; a server batches as requests come: engine = \"openai\" with " +
				"concurrency"))
	}
}

// sharding turns a strategy and a number of shards into degrees.
func (t *Translator) sharding(n *tree.Node) {
	s := t.members(n, "sharding_config", "strategy", "num_shards")
	if s == nil {
		return
	}
	shards := s.Get("num_shards")
	if shards == nil {
		shards = &tree.Node{At: s.At, Scalar: int64(1)}
	}
	strategy := s.Get("strategy")
	if strategy == nil {
		strategy = &tree.Node{At: s.At, Scalar: "none"}
	}
	switch strategy.Scalar {
	case "none":
		if count, ok := tree.Whole(shards.Scalar); !ok || count > 1 {
			t.Wrong(shards.At.Errorf("sharding_config.num_shards: %s without a strategy: give strategy = \"tensor_parallel\", or 1", shards.What()))
		}
	case "tensor_parallel":
		t.become(n, "sharding_config", tree.Pair{Key: "tp", At: s.At, Value: shards})
	case "pipeline_parallel":
		t.Wrong(strategy.At.Errorf(
			"sharding_config.strategy: pipelines are not run by the engines here; a server may do it: engine = \"openai\""))
	default:
		known := []string{"none", "tensor_parallel", "pipeline_parallel"}
		t.Wrong(strategy.At.Errorf("sharding_config.strategy: %s; %s", strategy.What(), spelling.Hint(fmt.Sprint(strategy.Scalar), known)))
	}
}

func (t *Translator) quantization(n *tree.Node) {
	const of = "quantization_config"
	q := t.members(n, of, "quantization", "load_in_4bit", "load_in_8bit", "bnb_*")
	if q == nil {
		return
	}
	for _, p := range q.Pairs {
		if strings.HasPrefix(p.Key, "bnb_") {
			t.Warn(p.At, "%s.%s has no effect: bitsandbytes runs with its own defaults", of, p.Key)
		}
	}
	four, eight := t.truth(q, of, "load_in_4bit"), t.truth(q, of, "load_in_8bit")
	asked := q.Get("quantization")
	on := asked == nil || t.truth(q, of, "quantization")
	switch {
	case four && eight:
		t.Wrong(q.At.Errorf("%s: load_in_4bit and load_in_8bit: want one of them", of))
	case on && four:
		t.become(n, of, tree.Pair{Key: "quantization", At: q.At, Value: &tree.Node{At: q.Get("load_in_4bit").At, Scalar: "int4"}})
	case on && eight:
		t.become(n, of, tree.Pair{Key: "quantization", At: q.At, Value: &tree.Node{At: q.Get("load_in_8bit").At, Scalar: "int8"}})
	case asked != nil && on:
		t.Wrong(asked.At.Errorf("%s.quantization: to how many bits? Give load_in_4bit or load_in_8bit", of))
	case four || eight:
		t.Warn(q.At, "%s: load_in_4bit and load_in_8bit have no effect, since quantization is false", of)
	}
}

// decoder warns that settings of sampling have no effect.
func (t *Translator) decoder(n *tree.Node) {
	d := t.members(n, "decoder_config", "temperature", "top_p", "top_k", "do_sample", "repetition_penalty")
	if d == nil {
		return
	}
	for _, p := range d.Pairs {
		t.Warn(p.At, "decoder_config.%s has no effect: each engine here chooses tokens in its one way, and all generate gen_len of them", p.Key)
	}
}

func (t *Translator) latency(n *tree.Node) {
	l := t.members(n, "latency_simulation", "*")
	if l == nil {
		return
	}
	if t.truth(l, "latency_simulation", "enabled") {
		t.Wrong(l.Get("enabled").At.Errorf(
			"latency_simulation: delays are not made up here; for requests that come at random times give engine = \"openai\" and request_rate_hz"))
		return
	}
	t.Warn(l.At, "latency_simulation has no effect: it is off")
}

// rate drops the rate of requests that every one of their files has, where
// nobody sends requests.
func (t *Translator) rate(n *tree.Node) {
	v := n.Get("request_rate_hz")
	if v == nil {
		return
	}
	if engine := n.Get("engine"); engine != nil && engine.Scalar == openAI {
		return
	}
	if v.Legacy {
		n.Take("request_rate_hz")
		t.Warn(v.At, "query_rate has no effect: nobody sends requests to this engine, which is run in passes; for a server give engine = "+
			"\"openai\"")
	}
}
