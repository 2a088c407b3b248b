package aggregate

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"llmprof/analytic/operator"
	"llmprof/internal/stats"
	"llmprof/measure/result"
)

// A PaperTable is stored results in the shape of a paper's tables: a row for each
// configuration, over all its repeats and processes.
type PaperTable struct {
	Rows  []PublishedRow
	Whole bool // energies are of the whole batch, as ELANA's tables have them, not of one sequence
}

// A PublishedRow is one configuration. Times are over all samples.
type PublishedRow struct {
	Device            string         `json:"device"`
	Engine            string         `json:"engine"`
	Model             string         `json:"model"`
	operator.Workload                // a server has a batch of 0, for requests come to it one by one
	Runs              int            `json:"runs"` // results that the row is made of
	TTFT              *stats.Summary `json:"ttft_s"`
	TPOT              *stats.Summary `json:"tpot_s"`
	TTLT              *stats.Summary `json:"ttlt_s"`
	PerPrompt         *float64       `json:"energy_per_prompt_j"` // energy of the prompt of one sequence
	PerToken          *float64       `json:"energy_per_token_j"`
	PerRequest        *float64       `json:"energy_per_request_j"`
	Generated         *float64       `json:"generated_tok_s"`
	Params            *float64       `json:"params_bytes"`
	Cache             *float64       `json:"cache_bytes"`  // KV and state of the whole batch
	CacheTokens       int            `json:"cache_tokens"` // tokens of each sequence in the counted cache
	Marks             []string       `json:"marks"`        // reasons to doubt the figures
}

// Publish puts the results of each configuration into a row.
func Publish(all []*result.Result, whole bool) *PaperTable {
	p := &PaperTable{Whole: whole}
	groups := map[string][]*result.Result{}
	var order []string
	for _, r := range all {
		key := cmp.Or(r.Provenance.Hash, r.ID)
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], r)
	}
	for _, key := range order {
		p.Rows = append(p.Rows, publishedRow(groups[key]))
	}
	slices.SortStableFunc(p.Rows, func(a, b PublishedRow) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Engine, b.Engine), a.Batch-b.Batch, a.PromptLen-b.PromptLen,
			a.GenLen-b.GenLen, cmp.Compare(a.Model, b.Model))
	})
	return p
}

func publishedRow(of []*result.Result) PublishedRow {
	first := of[0]
	row := PublishedRow{
		Model: first.Model.Name, Device: deviceOf(first), Engine: engineText(first), Workload: first.Workload.Workload, Runs: len(of),
		TTFT: pooled(of, func(r *result.Result) *result.Times { return r.TTFT }),
		TPOT: pooled(of, func(r *result.Result) *result.Times { return r.TPOT }),
		TTLT: pooled(of, func(r *result.Result) *result.Times { return r.TTLT }),
	}
	if s := first.Serving; s != nil {
		row.PromptLen, row.GenLen = counted(s.PromptTokens, row.PromptLen), counted(s.GeneratedTokens, row.GenLen)
	}
	energy := func(pick func(*result.Energy) *float64) *float64 {
		return meanOver(of, func(r *result.Result) *float64 {
			if r.Energy == nil {
				return nil
			}
			return pick(r.Energy)
		})
	}
	row.PerPrompt = energy(func(e *result.Energy) *float64 { return e.PerPrompt })
	row.PerToken = energy(func(e *result.Energy) *float64 { return e.PerToken })
	row.PerRequest = energy(func(e *result.Energy) *float64 { return e.PerRequest })
	row.Generated = meanOver(of, func(r *result.Result) *float64 {
		if r.Throughput == nil {
			return nil
		}
		return r.Throughput.Generated
	})
	row.Marks = []string{}
	for _, r := range of {
		for _, m := range r.Marks {
			if !slices.Contains(row.Marks, m) {
				row.Marks = append(row.Marks, m)
			}
		}
	}
	if s := first.Sizes; s != nil {
		row.Params, row.Cache, row.CacheTokens = bytesOf(s.Params), bytesOf(s.KV, s.State), cacheTokens(first)
	}
	return row
}

// counted is the mean length that a server counted, else the one that was asked for, which requests of a trace do not have.
func counted(by *stats.Summary, asked int) int {
	if by == nil {
		return asked
	}
	return int(math.Round(by.Mean))
}

// cacheTokens is how many tokens of a sequence the cache of a result was counted with:
// the prompt's, unless the engine noted another number.
func cacheTokens(r *result.Result) int {
	for _, note := range r.Engine.Notes {
		var n int
		if _, err := fmt.Sscanf(note, "the KV cache was counted with room for %d tokens", &n); err == nil {
			return n
		}
	}
	return r.Workload.PromptLen
}

func deviceOf(r *result.Result) string {
	switch {
	case len(r.Machine.GPUs) > 0:
	case r.Serving != nil:
		return r.Serving.Endpoint // the machine is its client's
	default:
		return cmp.Or(r.Machine.CPU, "unknown device")
	}
	if n := len(r.Machine.GPUs); n > 1 {
		return fmt.Sprintf("%d × %s", n, r.Machine.GPUs[0].Name)
	}
	return r.Machine.GPUs[0].Name
}

// engineText is the engine with what changes its times most.
func engineText(r *result.Result) string {
	text := r.Engine.Name
	if r.Engine.Version != "" {
		text += " " + r.Engine.Version
	}
	switch r.Engine.Options["graph"] {
	case "true":
		text += ", CUDA graph"
	case "false":
		text += ", eager"
	}
	if r.Workload.Weights != "" {
		text += ", " + r.Workload.Weights
	}
	return text
}

func pooled(of []*result.Result, pick func(*result.Result) *result.Times) *stats.Summary {
	if len(of) == 1 && pick(of[0]) != nil {
		return &pick(of[0]).Summary
	}
	return summary(samplesOf(of, pick))
}

// samplesOf are the samples of one time of all results.
func samplesOf(of []*result.Result, pick func(*result.Result) *result.Times) (samples []float64) {
	for _, r := range of {
		if t := pick(r); t != nil {
			samples = slices.AppendSeq(samples, t.Values())
		}
	}
	return samples
}

// meanOver is the mean of a figure over the results that have it.
func meanOver(of []*result.Result, pick func(*result.Result) *float64) *float64 {
	values := stats.Values(of, func(r **result.Result) *float64 { return pick(*r) })
	if len(values) == 0 {
		return nil
	}
	return new(stats.Mean(values))
}

// bytesOf adds sizes up, nil where none is known.
func bytesOf(sizes ...*int64) *float64 {
	var sum float64
	known := false
	for _, s := range sizes {
		if s != nil {
			sum, known = sum+float64(*s), true
		}
	}
	if !known {
		return nil
	}
	return &sum
}
