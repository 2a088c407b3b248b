package native

import (
	"math"
	"testing"

	"llmprof/analytic"
	"llmprof/hardware"
	"llmprof/measure/engine/native/cuda"
	"llmprof/measure/engine/native/internal/emulate"
)

// wideMixture has groups of eight heads of 128, as Qwen3-30B-A3B has, and widths that leave
// parts of stages.
const wideMixture = `{"model_type":"qwen3_moe","hidden_size":576,"intermediate_size":512,"moe_intermediate_size":192,"num_hidden_layers":2,
	"num_attention_heads":16,"num_key_value_heads":2,"head_dim":128,"num_experts":40,"num_experts_per_tok":8,"norm_topk_prob":true,
	"decoder_sparse_step":1,"mlp_only_layers":[],"vocab_size":320,"max_position_embeddings":4096,"hidden_act":"silu",
	"rms_norm_eps":1e-6,"rope_theta":1000000.0,"tie_word_embeddings":false,"attention_bias":false,"use_sliding_window":false}`

// windowedMixture looks back on fewer tokens than the context has.
const windowedMixture = `{"model_type":"mixtral","hidden_size":320,"intermediate_size":448,"num_hidden_layers":2,"num_attention_heads":5,
	"num_key_value_heads":1,"head_dim":64,"num_local_experts":4,"num_experts_per_tok":2,"vocab_size":640,"max_position_embeddings":4096,
	"hidden_act":"silu","rms_norm_eps":1e-5,"rope_theta":1000000.0,"tie_word_embeddings":false,"sliding_window":16}`

// A step in one kernel gives the scores that it gives in a kernel for each operator: after
// prompts that end before and at the end of a tile of keys, and with one token.
func TestStepIsItsKernels(t *testing.T) {
	emulate.Device(t)
	for name, c := range map[string]struct {
		config  string
		prompts []int
		fp16    bool
	}{
		"wide": {wideMixture, []int{14}, false}, "qwen3_moe": {tinyQwen3MoE, []int{1, 15, 70}, false}, "mixtral": {tinyMixtral, []int{14, 31}, false},
		"mixtral in fp16": {tinyMixtral, []int{15}, true}, "window": {windowedMixture, []int{14, 40}, false},
	} {
		for _, prompt := range c.prompts {
			opt := Options{Seed: 7, Batch: 1, PromptLen: prompt, GenLen: 4, FP16: c.fp16}
			one := stepScores(t, c.config, opt)
			opt.apart = true
			for step, want := range stepScores(t, c.config, opt) {
				worst, size := 0.0, 0.0
				for i, v := range want {
					worst = max(worst, math.Abs(float64(v-one[step][i])))
					size = max(size, math.Abs(float64(v)))
				}
				if !(worst < size/150) { // a tenth less of what attention gives makes three times that
					t.Errorf("%s, %d tokens, step %d: scores of %.3g differ by %.3g", name, prompt, step, size, worst)
				}
			}
		}
	}
}

// stepScores are those of each step, with what the step does not write itself poisoned.
func stepScores(t *testing.T, config string, opt Options) (out [][]float32) {
	t.Helper()
	e := open(t, config, opt)
	if e.fusesStep() == opt.apart {
		t.Fatalf("apart %v: one kernel %v", opt.apart, e.fusesStep())
	}
	m := &meter{t: t}
	m.must(e.SetPrompts(randomPrompts(3, 1, opt.PromptLen, e.shape.vocab)))
	m.must(poison(e))
	_, err := e.Prefill()
	m.must(err)
	for range opt.GenLen - 1 {
		_, err := e.Step()
		m.must(err)
		s, err := e.scores()
		m.must(err)
		out = append(out, s[0])
	}
	return out
}

// The step's kernel fits into the shared memory of a block, where it is launched at all, and
// each of its warps that copy has as many stages.
func TestStepFits(t *testing.T) {
	qwen := shape{heads: 32, kvHeads: 4, headDim: 128, hidden: 2048, inner: 768, layers: 48, mixture: mixture{experts: 128, topK: 8}}
	mixtral := shape{heads: 32, kvHeads: 8, headDim: 128, hidden: 4096, inner: 14336, layers: 32, mixture: mixture{experts: 8, topK: 2}}
	for _, c := range []struct {
		shape   shape
		memory  int
		sms     int
		batch   int
		there   bool
		longest int // stages
	}{
		{qwen, 227 << 10, 132, 1, true, 16}, {qwen, 163 << 10, 108, 1, true, 8}, {qwen, 99 << 10, 142, 1, false, 0}, {qwen, 227 << 10, 132, 2, false, 0},
		{mixtral, 227 << 10, 132, 1, true, 8}, {qwen, 227 << 10, 3, 1, false, 0}, // fewer blocks than key heads
	} {
		e := &Engine{shape: c.shape, opt: Options{Batch: c.batch, sms: c.sms}, dev: &cuda.Device{}, p: &program{linear: linearShapes()}, b: &buffers{}}
		e.dev.SharedOptIn, e.dev.SMs, e.dev.Major = c.memory, c.sms, 9
		e.p.moe.step, e.p.decode = &cuda.Kernel{}, decodeFor(9, &c.shape)
		p := e.planStep()
		if (p != nil) != c.there {
			t.Errorf("%d KiB, %d multiprocessors, batch %d: %+v", c.memory>>10, c.sms, c.batch, p)
			continue
		}
		if p == nil {
			continue
		}
		if p.stages != c.longest || p.stages%copyWarps != 0 || e.stepShared(p)+besideStep > c.memory {
			t.Errorf("%d KiB: %d stages of %d bytes, want %d", c.memory>>10, p.stages, e.stepShared(p), c.longest)
		}
		if parts := c.shape.heads / c.shape.kvHeads * c.shape.headDim >> p.share; parts < 1 || parts*c.shape.kvHeads > p.blocks {
			t.Errorf("%d parts of %d heads on %d blocks", parts, c.shape.kvHeads, p.blocks)
		}
	}
}

// A share is a power of 2 that divides a head's output, of as few values as the blocks allow.
func TestShares(t *testing.T) {
	for _, c := range []struct{ group, dim, blocks, want int }{
		{8, 128, 16, 6}, {8, 128, 32, 5}, {8, 128, 33, 5}, {8, 128, 7, 8}, {8, 128, 1, 10}, {5, 64, 6, 6}, {5, 64, 4, -1}, {1, 64, 100, 2}, {7, 128, 14, 6},
	} {
		s := shape{heads: 3 * c.group, kvHeads: 3, headDim: c.dim}
		if got := s.shareOf(c.blocks); got != c.want {
			t.Errorf("%d heads of %d by %d blocks: 2^%d, want 2^%d", c.group, c.dim, c.blocks, got, c.want)
		}
	}
}

// TestTilesAreTheEstimates holds how many pairs of an expert go together to what estimates take, and up
// to how many sequences gate and up are read for every pair.
func TestTilesAreTheEstimates(t *testing.T) {
	e, err := analytic.ParseEngine("native")
	if err != nil {
		t.Fatal(err)
	}
	hopper, older := hardware.GPU{ComputeCapability: "9.0"}, hardware.GPU{ComputeCapability: "8.0"}
	own := linearShapes()
	if analytic.GroupPairs != pairsOfGroup || analytic.ExpertTile(&hopper) != pairsOfItem || analytic.ExpertTile(&older) != pairsOfTile ||
		int(e.Carries.Pairs) != own[len(own)-1].rows || int(e.Carries.Mixture) != mostTokens {
		t.Errorf("groups of %d, tiles of %v and %v; %+v", analytic.GroupPairs, analytic.ExpertTile(&hopper), analytic.ExpertTile(&older), e.Carries)
	}
}
