package native

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"llmprof/analytic/operator"
	"llmprof/measure/native/cuda"
	"llmprof/measure/native/internal/emulate"
)

// groupedHeadsMoE has groups of eight heads of 128, as Qwen3-30B-A3B has, and widths that leave
// parts of stages.
const groupedHeadsMoE = `{"model_type":"qwen3_moe","hidden_size":576,"intermediate_size":512,"moe_intermediate_size":192,` +
	`"num_hidden_layers":2,
	"num_attention_heads":16,"num_key_value_heads":2,"head_dim":128,"num_experts":40,"num_experts_per_tok":8,"norm_topk_prob":true,
	"decoder_sparse_step":1,"mlp_only_layers":[],"vocab_size":320,"max_position_embeddings":4096,"hidden_act":"silu",
	"rms_norm_eps":1e-6,"rope_theta":1000000.0,"tie_word_embeddings":false,"attention_bias":false,"use_sliding_window":false}`

// windowedMoE looks back on fewer tokens than the context has.
const windowedMoE = `{"model_type":"mixtral","hidden_size":320,"intermediate_size":448,"num_hidden_layers":2,"num_attention_heads":5,
	"num_key_value_heads":1,"head_dim":64,"num_local_experts":4,"num_experts_per_tok":2,"vocab_size":640,"max_position_embeddings":4096,
	"hidden_act":"silu","rms_norm_eps":1e-5,"rope_theta":1000000.0,"tie_word_embeddings":false,"sliding_window":16}`

// The megakernel gives the scores of a step with a kernel for each operator: after prompts that end
// before and at the end of a tile of keys, and after one token. A GPU also runs long contexts, in
// 16 parts and in 32. If two tokens tie, the two steps may choose differently, and their texts then
// differ.
func TestStepIsItsKernels(t *testing.T) {
	emulate.Device(t)
	// This model chooses all experts. Otherwise rounding would decide between two that are nearly
	// as likely, and the scores would be another model's.
	longContext := strings.NewReplacer("4096", "16384", `"num_experts":40`, `"num_experts":8`).Replace(groupedHeadsMoE)
	for name, c := range map[string]struct {
		config  string
		prompts []int
		fp16    bool
		parts   int
	}{
		"wide": {groupedHeadsMoE, []int{14}, false, 0}, "qwen3_moe": {tinyQwen3MoE, []int{1, 15, 70}, false, 0},
		"mixtral":      {tinyMixtral, []int{14, 31}, false, 0},
		"fp16_mixtral": {tinyMixtral, []int{15}, true, 0}, "sliding": {windowedMoE, []int{14, 40}, false, 0},
		"parts": {groupedHeadsMoE, []int{30}, false, maxSplits}, "long": {longContext, []int{4093, 8190}, false, 0},
		"long_parts": {longContext, []int{4093}, false, maxSplits},
	} {
		for _, prompt := range c.prompts {
			t.Run(fmt.Sprintf("%s/%d", name, prompt), func(t *testing.T) {
				if prompt > 1000 && slow() {
					t.Skip("a long prompt: the processor takes its time")
				}
				if name != "qwen3_moe" || prompt != 15 {
					emulate.Long(t)
				}
				opt := Options{Seed: 7, Workload: operator.Workload{Batch: 1, PromptLen: prompt, GenLen: 4}, FP16: c.fp16, splits: c.parts}
				one := stepScores(t, c.config, opt)
				opt.unfused, opt.splits = true, 0
				for step, want := range stepScores(t, c.config, opt) {
					worst, size := furthest(one[step], want)
					if !(worst < size/150) { // a tenth less of what attention gives makes three times that
						t.Fatalf("step %d: scores of %.3g differ by %.3g", step, size, worst)
					}
					chosen, best := argmax(one[step]), argmax(want)
					t.Logf("step %d: scores of %.3g differ by %.2g; what was chosen is %.2g below the best", step, size, worst, want[best]-want[chosen])
					if chosen != best {
						break
					}
				}
			})
		}
	}
}

// furthest returns the greatest difference of a score from the wanted one, and the greatest wanted
// score.
func furthest(got, want []float32) (worst, size float64) {
	for i, v := range want {
		worst = max(worst, math.Abs(float64(v-got[i])))
		size = max(size, math.Abs(float64(v)))
	}
	return worst, size
}

// The test compares the megakernel with a kernel for each operator, for qwen3-30b-a3b with 60 GB of
// random weights, at the contexts that LLMPROF_TEST_STEP names ("4096,8192"). In this model
// rounding decides between experts in places, so the limit is twice the difference of a step whose
// GEMMs are cuBLASLt's. If the tokens differ, the test logs how near to the best the megakernel's
// choice is.
func TestGPUStepIsItsKernels(t *testing.T) {
	contexts := os.Getenv("LLMPROF_TEST_STEP")
	if contexts == "" {
		t.Skip("LLMPROF_TEST_STEP names no contexts: 60 GB of a GPU's memory")
	}
	gpu(t)
	for context := range strings.SplitSeq(contexts, ",") {
		for _, parts := range []int{fewParts, maxSplits} {
			t.Run(fmt.Sprintf("%s/%d", context, parts), func(t *testing.T) {
				opt := Options{Seed: 1, Workload: operator.Workload{Batch: 1, PromptLen: number(t, context) - 32, GenLen: 33}, Spread: true,
					splits: parts}
				one := stepScores(t, qwen30BA3B, opt)
				opt.unfused, opt.splits = true, 0
				unfused := stepScores(t, qwen30BA3B, opt)
				opt.GEMM = CublasGEMM
				moved, limit := firstDifference(t, "one kernel", one, unfused),
					firstDifference(t, "products of cuBLASLt", stepScores(t, qwen30BA3B, opt), unfused)
				if !(moved < 2*limit) {
					t.Errorf("scores differ by %.3g of them, those of cuBLASLt's products by %.3g", moved, limit)
				}
			})
		}
	}
}

// firstDifference returns the greatest difference of scores, relative to the greatest score, of the
// steps up to the first with different tokens.
func firstDifference(t *testing.T, what string, got, want [][]float32) (moved float64) {
	t.Helper()
	for step, scores := range want {
		worst, size := furthest(got[step], scores)
		moved = max(moved, worst/size)
		if chosen, best := argmax(got[step]), argmax(scores); chosen != best {
			t.Logf("%s: step %d: another token, %.2g below the best of scores of %.3g, which differ by %.2g", what, step,
				scores[best]-scores[chosen], size, worst)
			return moved
		}
	}
	t.Logf("%s: the tokens of all %d steps, scores differ by %.2g of the greatest at worst", what, len(want), moved)
	return moved
}

// stepScores returns the scores of the prompt and of each step, with all buffers poisoned that
// these write before they read.
func stepScores(t *testing.T, config string, opt Options) (out [][]float32) {
	t.Helper()
	e := open(t, config, opt)
	if e.usesMegakernel() == opt.unfused {
		t.Fatalf("unfused %v: one kernel %v", opt.unfused, e.usesMegakernel())
	}
	m := &meter{t: t}
	m.must(e.SetPrompts(randomPrompts(3, 1, opt.PromptLen, e.shape.vocab)))
	m.must(poison(e))
	for next := e.Prefill; len(out) < opt.GenLen; next = e.Step {
		_, err := next()
		m.must(err)
		s, err := e.scores()
		m.must(err)
		out = append(out, s[0])
	}
	m.must(e.Close())
	return out
}

// The megakernel fits into the shared memory of a block wherever it is launched, and all of its
// copying warps have equally many stages.
func TestStepFits(t *testing.T) {
	qwen := shape{heads: 32, kvHeads: 4, headDim: 128, hidden: 2048, inner: 768, layers: 48, moeShape: moeShape{experts: 128, topK: 8}}
	mixtral := shape{heads: 32, kvHeads: 8, headDim: 128, hidden: 4096, inner: 14336, layers: 32, moeShape: moeShape{experts: 8, topK: 2}}
	for _, c := range []struct {
		shape   shape
		memory  int
		sms     int
		batch   int
		there   bool
		longest int // stages
	}{
		{qwen, 227 << 10, 132, 1, true, 16}, {qwen, 163 << 10, 108, 1, true, 8}, {qwen, 99 << 10, 142, 1, false, 0},
		{qwen, 227 << 10, 132, 2, false, 0},
		{mixtral, 227 << 10, 132, 1, true, 8}, {qwen, 227 << 10, 3, 1, false, 0}, // fewer blocks than key heads
	} {
		e := &Engine{shape: c.shape, opt: Options{Workload: operator.Workload{Batch: c.batch}, sms: c.sms}, dev: &cuda.Device{},
			p: &program{gemms: skinnyGEMMs()}, b: &buffers{}}
		e.dev.SharedOptIn, e.dev.SMs, e.dev.Major = c.memory, c.sms, 9
		e.p.decode = decodeFor(9, &c.shape)
		e.shape.megakernel = e.shape.megakernelGrid(&e.dev.Properties, c.sms, fewParts)
		p := e.planMegakernel()
		if (p != nil) != c.there {
			t.Errorf("%d KiB, %d multiprocessors, batch %d: %+v", c.memory>>10, c.sms, c.batch, p)
			continue
		}
		if p == nil {
			continue
		}
		if p.stages != c.longest || p.stages%multiplyWarps != 0 || c.shape.megakernelShared(p.megakernelGrid)+staticSharedStep > c.memory {
			t.Errorf("%d KiB: %d stages of %d bytes, want %d", c.memory>>10, p.stages, c.shape.megakernelShared(p.megakernelGrid), c.longest)
		}
		if parts := c.shape.heads / c.shape.kvHeads * c.shape.headDim >> p.share; parts < 1 || parts*c.shape.kvHeads > p.blocks {
			t.Errorf("%d parts of %d heads on %d blocks", parts, c.shape.kvHeads, p.blocks)
		}
	}
}

// A share is a power of 2 that divides a head's output, and as small as the number of blocks
// allows.
func TestShares(t *testing.T) {
	for _, c := range []struct{ group, dim, blocks, want int }{
		{8, 128, 16, 6}, {8, 128, 32, 5}, {8, 128, 33, 5}, {8, 128, 7, 8}, {8, 128, 1, 10}, {5, 64, 6, 6}, {5, 64, 4, -1}, {1, 64, 100, 2},
		{7, 128, 14, 6},
	} {
		s := shape{heads: 3 * c.group, kvHeads: 3, headDim: c.dim}
		if got := s.shareOf(c.blocks); got != c.want {
			t.Errorf("%d heads of %d by %d blocks: 2^%d, want 2^%d", c.group, c.dim, c.blocks, got, c.want)
		}
	}
}
