package engine

import (
	"math"
	"strings"

	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/unit"
)

// SGLang sizes its pools by what is free after the weights, less the part of what was free before that its static share leaves
// (_profile_available_bytes of mem_cache/kv_cache_configurator.py in 0.5.23).

// sglangOutside is what SGLang's process has of a GPU before it loads weights, its context included: 0.68 GiB of an H200 and 0.69 of an
// H100, by "Load weight begin" of its logs (experiments/sglang, 0.5.14 and 0.5.23).
const sglangOutside = gib * 0.685

// sglangRanks is what two ranks have besides, with their communicators and symmetric memory: 1.60 GiB of an H200 in all
// (experiments/h200-pair/memory.txt).
const sglangRanks = gib * 0.915

// The shares of SGLang's pools (arg_groups/fields/schedule.py).
const (
	sglangWindowTokens = 0.8 // --swa-full-tokens-ratio
	sglangStates       = 0.9 // --mamba-full-memory-ratio: bytes of states for each byte of KV cache
	// Slots of states that a running request takes (_calculate_mamba_ratio): three for the prefix cache, without which it takes one, and two
	// more for the extra buffer of overlapped scheduling.
	sglangSlots, sglangOneSlot = 5, 1
	// Ranks of TP and PP take as much more of the static share, an eighth of a GiB each (arg_groups/memory_hook.py).
	sglangRank = gib / 8
)

// sglangAllocation is how SGLang shares out the memory of a rank.
func sglangAllocation(r *operator.Rank, g *hardware.GPU) *operator.Allocation {
	a := &operator.Allocation{Loaded: extraWeights(r), Outside: sglangOutside + g.System()}
	if n := r.Par.TP * r.Par.PP; n > 1 {
		a.Outside += sglangRanks + sglangRank.Times(float64(n-1))
	}
	if swizzled(r, g) {
		a.Loaded += swizzle38.more(r) + swizzle38.hole(r)
	}
	if scans(r.Model) {
		a.States = &operator.StatePool{Share: sglangStates / (1 + sglangStates), Slot: r.State(), PerRequest: sglangSlots}
		if r.Settings.NoPrefixCache {
			a.States.PerRequest = sglangOneSlot
		}
	}
	cell := sglangCell(r)
	if d := r.Draft(); d != nil { // Its layers have a pool of as many tokens.
		cell += sglangCell(d).Times(float64(r.Model.Drafts))
	}
	if cell > 0 {
		a.Caches = func(float64) []operator.Pages { return []operator.Pages{{Each: cell, Tokens: 1, Limit: math.Inf(1)}} }
	}
	a.Log = func(cache unit.Bytes, longest, _ float64) operator.Log {
		if cell == 0 {
			return operator.Log{}
		}
		tokens := math.Floor(float64(cache / cell))
		return operator.Log{Tokens: tokens, Requests: sglangRunning(tokens, longest, float64(r.Settings.Sequences))}
	}
	return a
}

// sglangRunning is the most requests that run, by a limit or, where that is 0, by the length of the longest one (resolve_max_num_reqs).
func sglangRunning(tokens, longest, limit float64) float64 {
	if limit == 0 {
		limit = max(min(tokens/longest*512, 4096), 2048)
	}
	return min(limit, math.Floor(tokens/2))
}

// sglangCell is the bytes that a token of the pool of full layers stands for, with its share of the pool of windows
// (model_executor/pool_configurator.py). Where the cache has one pool, windows are kept in full.
func sglangCell(r *operator.Rank) (cell unit.Bytes) {
	share := r.Par.StageShare(r.Model.NumLayers())
	pooled := windowPool(r.Model)
	for l, b := range r.Model.Blocks() {
		a := b.Attention
		if a == nil || a.Shared {
			continue
		}
		each := r.CachedBytes(a, r.Scheme.KV).Times(float64(l.Count) * share)
		if pooled && a.Window > 0 {
			each = each.Times(sglangWindowTokens)
		}
		cell += each
	}
	return cell
}

// windowPool reports whether windows have a pool of their own (is_hybrid_swa_model of configs/model_config.py); Gemma 2 and 3 and EXAONE
// turn it off (arg_groups/model_overrides).
func windowPool(m *models.Model) bool {
	for _, family := range []string{"gpt_oss", "llama4", "gemma4", "mimo", "step3p5", "deepseek_v4"} {
		if strings.HasPrefix(m.Family, family) {
			return true
		}
	}
	return false
}
