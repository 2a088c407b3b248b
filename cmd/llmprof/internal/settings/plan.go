package settings

import (
	"cmp"
	"slices"

	"github.com/spf13/pflag"

	"llmprof/analytic/engine"
	"llmprof/deployment"
	"llmprof/plan"
	"llmprof/serving"
)

// Planned defines the flags of a search. Traces are read by read, or not at all where it is nil.
func Planned(f *pflag.FlagSet, o *plan.Options, read TraceReader) {
	Bind(f, o, "Plan")
	Words(f, "engines", engine.Names()...)
	o.Prompt, o.Output = new(serving.Fixed(1024)), new(serving.Fixed(128))
	f.Lookup("in").Value, f.Lookup("out").Value = LengthsFlag(o.Prompt, false, read), LengthsFlag(o.Output, true, read)
	f.Var(LengthsFlag(o.Prompt, false, read), "prompt-len", "`tokens` of prompts: as --in")
	f.Var(LengthsFlag(o.Output, true, read), "gen-len", "`tokens` of answers: as --in")
}

// estimateOrder is the order in which the flags of a deployment are written.
var estimateOrder = []string{"model", "gpu", "engine", "kv", "weights", "tp", "pp", "ep", "moe_tp", "dp", "micro_batches", "images",
	"audio", "prompt_len",
	"prompt_lengths", "gen_len", "gen_lengths", "price", "power_limit", "clock", "p2p", "no_p2p", "nvlink", "max_num_batched_tokens",
	"max_num_seqs", "prefill_replicas", "speculative_tokens", "acceptance", "batch", "concurrency", "rate"}

// Args are the flags of "llmprof estimate" that ask what a request asks.
func Args(q *deployment.Request) (args []string) {
	rank := func(key string) int { return slices.Index(estimateOrder, key) }
	var all []string
	of := map[string]string{}
	for f, v := range Fields(q) {
		if v.IsZero() {
			continue
		}
		all, of[f.Key] = append(all, f.Key), (&value{v}).String()
	}
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(uint(rank(a)), uint(rank(b))) }) // others follow
	for _, key := range all {
		drawn := map[string]string{"prompt_lengths": "prompt_len", "gen_lengths": "gen_len"}[key]
		if args = append(args, Flag(cmp.Or(drawn, key))); of[key] != "true" {
			args = append(args, of[key])
		}
	}
	return args
}
