package operator_test

import (
	"testing"

	"llmprof/analytic/operator"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
	"llmprof/unit"
)

// rankOf is the footprint of a rank in 16 bits on H200s, of which nothing is reserved.
func rankOf(t *testing.T, m *models.Model, tp int) operator.Footprint {
	t.Helper()
	r := operator.NewRank(m, operator.Parallelism{TP: tp}, casetest.Scheme(t, "w16a16", casetest.GPU(t, "h200")), nil)
	return operator.NewFootprint(&r, 0)
}

// memoryOf is the memory of a batch on an H200.
func memoryOf(t *testing.T, m *models.Model, tp int, w operator.Workload) operator.Memory {
	t.Helper()
	f := rankOf(t, m, tp)
	f.Device = operator.DeviceMemory{Capacity: casetest.GPU(t, "h200").Capacity(), Share: 1}
	return f.Memory(&w, 0)
}

// The weights of a rank, over all ranks, are the model's: split matrices add up to the whole, and only
// the norms, which every rank has, are counted again.
func TestWeights(t *testing.T) {
	w := operator.Workload{Batch: 1, PromptLen: 1024, GenLen: 128}
	for _, m := range casetest.Models(t) {
		casetest.Near(t, m.Name+": weights", memoryOf(t, m, 1, w).Weights, unit.BF16.Bytes(float64(m.Params())), 1e-6)
	}
	for _, tp := range []int{2, 4, 8} {
		norms, whole := unit.BF16.Bytes(161*8192), unit.BF16.Bytes(68976648192)
		got := memoryOf(t, casetest.Model(t, "llama2-70b"), tp, w).Weights
		casetest.Near(t, "llama2-70b: weights of a rank", got, (whole-norms).Times(1/float64(tp))+norms, 1e-9)
	}
}

// The states of a scan and the KV cache of more heads than ranks are split over the ranks. More ranks
// than KV heads have copies of them.
func TestShardedCache(t *testing.T) {
	w := operator.Workload{Batch: 1, PromptLen: 1024, GenLen: 128}
	m := casetest.Model(t, "nemotron-h-8b")
	one, four := memoryOf(t, m, 1, w), memoryOf(t, m, 4, w)
	casetest.Near(t, "state", four.State, one.State.Times(1.0/4), 1e-9)
	casetest.Near(t, "cache", four.KV, one.KV.Times(1.0/4), 1e-9)
	m = casetest.Model(t, "llama2-70b") // 8 KV heads
	casetest.Near(t, "cache of 16 ranks", memoryOf(t, m, 16, w).KV, memoryOf(t, m, 8, w).KV, 1e-12)
}

// A model without attention has a state of constant size and no cache, and a hybrid has both.
func TestState(t *testing.T) {
	mamba := casetest.Model(t, "mamba2-2.7b")
	short := memoryOf(t, mamba, 1, operator.Workload{Batch: 4, PromptLen: 1024, GenLen: 128})
	long := memoryOf(t, mamba, 1, operator.Workload{Batch: 4, PromptLen: 100000, GenLen: 128})
	if short.State != long.State || short.State == 0 || long.KV != 0 || !long.Unbounded {
		t.Errorf("state %v after 1152 tokens, %v after 100128; cache %v", short.State, long.State, long.KV)
	}
	for _, name := range []string{"jamba-v0.1", "nemotron-h-8b", "qwen3-next-80b-a3b"} {
		if m := memoryOf(t, casetest.Model(t, name), 1, operator.Workload{Batch: 1, PromptLen: 64, GenLen: 2}); m.State == 0 || m.KV == 0 ||
			m.Unbounded {
			t.Errorf("%s: state %v, cache %v", name, m.State, m.KV)
		}
	}
}

// A prefill has the residual stream and its normed copy alive beside the values of the widest block,
// which is the MLP of 14336, or beside all scores in FP32.
func TestActivations(t *testing.T) {
	w := operator.Workload{Batch: 3, PromptLen: 1024, GenLen: 128}
	m := casetest.Model(t, "llama3.1-8b")
	casetest.Near(t, "activations", float64(memoryOf(t, m, 1, w).Activations), 3*1024*(2*4096+3*14336)*2, 1e-12)
	w.AllLogits = true
	casetest.Near(t, "activations with all scores", float64(memoryOf(t, m, 1, w).Activations), 3*1024*(2*4096*2+4*128256), 1e-12)
}

// While they decode, sequences have the activations of one token alive and not those of the prompt.
func TestMostSequences(t *testing.T) {
	m := memoryOf(t, casetest.Model(t, "llama3.1-8b"), 1, operator.Workload{Batch: 3, PromptLen: 1024, GenLen: 128})
	const kv, token = 32 * 2 * 8 * 128 * 2, 2*4096*2 + 128256*4 // The scores in FP32 exceed the widest block of one token.
	const prompt = 1024 * (2*4096 + 3*14336) * 2
	left := float64(m.Capacity - m.Weights)
	for what, x := range map[string]struct {
		got  int
		each float64
	}{
		"batch": {m.MaxBatch, 1152*kv + prompt}, "prefill": {m.MaxPrefillBatch, 1024*kv + prompt}, "decode": {m.MaxDecodeBatch, 1152*kv + token},
	} {
		if want := int(left / x.each); x.got != want {
			t.Errorf("%s: %d sequences fit, want %d", what, x.got, want)
		}
	}
}

// Ranks that hold one set of experts hold it once, whether they have whole experts or parts of each: what is not of the
// experts is held by every replica.
func TestSharedExperts(t *testing.T) {
	m := casetest.Model(t, "qwen3-30b-a3b")
	weights := func(p operator.Parallelism) float64 {
		r := operator.NewRank(m, p, casetest.Scheme(t, "w16a16", casetest.GPU(t, "h200")), nil)
		f := operator.NewFootprint(&r, 0)
		all, _ := f.Weights()
		return float64(all)
	}
	const experts = 48 * 128 * 3 * 2048 * 768 * 2 // bytes of gate, up and down
	own := weights(operator.Parallelism{DP: 8})
	casetest.Near(t, "experts of a replica of its own", own, 2*float64(m.Params()), 1e-6)
	for name, p := range map[string]operator.Parallelism{"whole": {DP: 8, EP: 8}, "cut": {DP: 8, MoETP: 8}, "both": {DP: 8, EP: 2, MoETP: 4}} {
		casetest.Near(t, name, 8*weights(p), 8*(own-experts)+experts, 1e-12)
	}
	casetest.Near(t, "cut over half of the replicas", 4*weights(operator.Parallelism{DP: 8, MoETP: 4}), 4*(own-experts)+experts, 1e-12)
	casetest.Near(t, "within TP", weights(operator.Parallelism{TP: 4, MoETP: 4}), weights(operator.Parallelism{TP: 4}), 0)
}
