package engine

import (
	"cmp"
	"math"

	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/unit"
)

const gib = unit.Bytes(1 << 30)

// A vllmMemory is how a release of vLLM shares out the memory of a GPU, by wheels from 0.4.3 to 0.33 (determine_available_memory of
// vllm/v1/worker/gpu_worker.py): its share of all memory, less the weights, less what grew outside of PyTorch's allocator since the process
// has a context and its communicators, less the peak of a step that it profiles, and less CUDA graphs.
type vllmMemory struct{ version }

// since reports whether the release is 0.minor or a later one.
func (v vllmMemory) since(minor int) bool { return !v.before(version{0, minor, 0}) }

// countsHeldBlocks reports whether blocks count that PyTorch's allocator keeps for itself, and communicators.
func (v vllmMemory) countsHeldBlocks() bool { return v.before(version{0, 6, 4}) }

// allRunner2 reports whether the second model runner runs all models, and counts its CUDA graphs.
func (v vllmMemory) allRunner2() bool { return v.since(29) }

// sorts reports whether PyTorch sorts all scores before top-p (ops/topk_topp_sampler.py).
func (v vllmMemory) sorts() bool { return v.since(8) && !v.since(17) }

// marlin reports whether the wheel has no Triton kernels of experts in MXFP4, so that Marlin runs them on Hopper (quantization/mxfp4.py).
func (v vllmMemory) marlin() bool { return !v.since(12) }

// swizzle is the layout of experts in MXFP4, which goes with the release of Triton in the wheel.
func (v vllmMemory) swizzle() swizzle {
	switch {
	case v.since(32):
		return swizzle38
	case v.since(15):
		return swizzle36
	}
	return swizzle35
}

// vllmAllocation is how a release shares out the memory of a rank.
func vllmAllocation(v version) func(*operator.Rank, *hardware.GPU) *operator.Allocation {
	return vllmMemory{v}.allocation
}

// vllmStartsAs makes an engine share out memory as its release does.
func vllmStartsAs(e *Engine, at version) {
	e.profile.Allocate = vllmAllocation(at)
	if (vllmMemory{at}).marlin() {
		e.profile.Padding = vllmMarlinPadding
	}
}

// swizzled reports whether experts lie in the layout of OpenAI's Triton kernels.
func (v vllmMemory) swizzled(r *operator.Rank, g *hardware.GPU) bool {
	return !v.marlin() && swizzled(r, g)
}

// runner2 reports whether the second model runner runs a model: since 0.25 dense models without states
// (_is_default_v2_model_runner_model of vllm/config/vllm.py).
func (v vllmMemory) runner2(m *models.Model) bool {
	return v.allRunner2() || v.since(25) && !m.HasExperts() && !scans(m)
}

// What vLLM holds outside of PyTorch's allocator, as start-up logs of 0.19 on H100s say: cuBLAS's workspaces and modules alone, and with
// them NCCL, the buffers of custom all-reduces and symmetric memory (0.24 to 0.26, 2.06 to 2.11 and 2.13 to 2.21 GiB of 1, 2 and 4 ranks;
// Granite 0.46 alone). A pipeline has 0.07: its stages make no all-reduces. Ranks without NVLink have no symmetric memory: 16 RTX 3090 hold
// 0.20 GiB each (vllm#14447), two RTX 4090 hold 0.25 (vllm#13061).
const (
	vllmAlone    = gib / 4
	vllmPair     = gib * 2.07
	vllmRanks    = gib * 2.17
	vllmPipeline = gib * 0.07
)

// vllmGraphMemory is what 0.25.1 counts for CUDA graphs, by its KV caches on an H100 and an H200 (experiments/h100-vllm,
// h200-vllm): of mixtures, whose runner captures two graphs of each kind and takes the others to be like the second. The second runner
// counts none there; the 0 to 0.3 GiB that dense models have less than their peaks leave are not explained. Of 0.33 it counts them in the
// same way (profile_cudagraph_memory of vllm/v1/worker/gpu/cudagraph_utils.py): 0.74 to 1.57 GiB of six models on one and two H200, 1.11 in
// the mean (experiments/h200-pair/memory.txt), twice what they take in the end.
const vllmGraphMemory, vllmDenseMemory, vllmRunner2Graphs = gib * 0.66, gib * 0.15, gib * 1.11

// graphMemory is what counts for CUDA graphs. The figures are those of graphs of up to 512 tokens; with fewer sequences there are fewer:
// 0.13 GiB of 5 sizes, and 0.17 of 7 (club-3090#104, #127).
func (v vllmMemory) graphMemory(r *operator.Rank) unit.Bytes {
	all := vllmGraphMemory
	switch {
	case !v.since(21): // VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS
		return 0
	case v.allRunner2():
		all = vllmRunner2Graphs
	case v.runner2(r.Model):
		all = vllmDenseMemory
	}
	return all.Times(min(vllmSizes.count(vllmLargest(r))/vllmSizes.count(vllmUsual), 1))
}

// outside is what a rank holds outside of PyTorch's allocator. Since 0.29 what communicators take is no part of it: two ranks of 0.33 have
// 0.02 to 0.19 GiB.
func (v vllmMemory) outside(r *operator.Rank, g *hardware.GPU) unit.Bytes {
	b := vllmAlone
	ranks := max(r.Par.TP, r.Par.ExpertRanks())
	switch {
	case v.countsHeldBlocks() && ranks > 1:
		b += operator.NCCL
	case v.allRunner2() || ranks > 1 && g.Joined() <= 1:
	case ranks == 2:
		b = vllmPair
	case ranks > 2:
		b = vllmRanks
	case r.Par.PP > 1:
		b = vllmPipeline
	}
	return b + g.System()
}

// peak is the peak of the profiled step: of the model's pass, or of sampling a token of every sequence, for which the hidden states
// and their copy stay alive. Vocabularies are not divided by TP, since every rank gathers the scores.
func (v vllmMemory) peak(r *operator.Rank, g *hardware.GPU) func(tokens, sequences float64) unit.Bytes {
	if v.countsHeldBlocks() {
		return heldByPass(r, g)
	}
	pass := operator.NewFootprint(r, 0)
	each, image := v.sampled(r.Model), largestImage(r.Model)
	return func(tokens, sequences float64) unit.Bytes {
		stream := r.Bytes(tokens * float64(r.Model.Hidden))
		vocab := float64(r.Model.Head.Out)
		sampling := unit.Bytes(sequences*vocab*each) + stream.Times(2)
		if !v.sorts() && !v.runner2(r.Model) {
			sampling += unit.FP32.Bytes(float64(g.SMs) * vocab) // the buffer of the kernel of top-k and top-p (topk_topp_triton.py)
		}
		if v.since(13) && !v.swizzled(r, g) { // Kernels of experts keep their buffers (vllm/v1/worker/workspace.py).
			sampling += workspaces(r, tokens)
		}
		peak := max(pass.Activations(tokens, 0)+stream, sampling, encoding(r, &image, tokens))
		peak += images(r, max(tokens, float64(image.Tokens)))
		if v.since(27) { // What PyTorch keeps besides the weights counts (total_consumed of vllm/utils/mem_utils.py).
			peak += unit.Bytes(sequences * vocab * vllmPenalties)
		}
		return peak
	}
}

// vllmPenalties is the bytes that the second runner keeps of each token of the vocabulary for each sequence: how often it was generated,
// and a bit for whether the prompt has it (PenaltiesState of vllm/v1/worker/gpu/sample/penalties.py).
const vllmPenalties = 4 + 1.0/8

// sampled is the bytes that sampling has alive for each score of a sequence: the scores in 16 bits and in FP32, and in
// the first runner their softmax and as many random numbers (vllm/v1/sample/sampler.py, ops/topk_topp_sampler.py;
// vllm/v1/worker/gpu/sample/sampler.py). Where PyTorch sorts them there are instead the sorted scores with their 64-bit indices, the
// indices before that, and the second buffers of both that CUB's radix sort writes to.
func (v vllmMemory) sampled(m *models.Model) float64 {
	const scores, index = 2 + 4, 8
	switch {
	case v.runner2(m):
		return scores
	case v.sorts():
		return scores + 2*(4+index) + index
	}
	return firstRunnerScores
}

const firstRunnerScores = 2 + 4 + 4 + 4

// workspaces are the two buffers of vLLM's kernels of experts, which stay alive (workspace_shapes of fused_moe.py): the
// outputs of the first product, and the larger of those of the activation and of the second. OpenAI's Triton kernels have none.
func workspaces(r *operator.Rank, tokens float64) (b unit.Bytes) {
	for _, block := range r.Model.Blocks() {
		e := block.Experts
		if e == nil || len(e.Out) == 0 {
			continue
		}
		hidden, width := float64(e.Out[0].Out), float64(e.Out[0].In)/float64(r.Par.ExpertTP())
		pairs := tokens * float64(e.TopK)
		b = max(b, r.Bytes(pairs*(max(e.Activation.Inputs()*width, hidden)+max(width, hidden))))
	}
	return b
}

// images are the inputs and outputs of a vision encoder that stay alive in the profiled step, of as many image tokens as a step has: 28 by
// 28 pixels of three colours in 16 bits for each, as of encoders with patches of 14 that merge four.
func images(r *operator.Rank, tokens float64) unit.Bytes {
	if r.Model.EncoderParams == 0 {
		return 0
	}
	return r.Bytes(tokens * (28*28*3 + float64(r.Model.Hidden)))
}

// largestImage is the largest image that the processor of a model makes; nothing where its encoders are not loaded.
func largestImage(m *models.Model) models.Media {
	const side = 1 << 13 // pixels, more than any processor leaves
	if m.EncoderParams == 0 {
		return models.Media{}
	}
	image, err := m.Image(side, side)
	if err != nil { // It has no images, or their rule is not known.
		return models.Media{}
	}
	return image
}

// encoding is what a vision encoder has alive at most in the profiled step: four streams, of positions, of the residual and of both sides
// of a norm, and a perceptron's first product and its activation, each four times as wide, which ranks share. It reads as many images as
// a step has tokens for, and one at least (MultiModalBudget of vllm/multimodal/encoder_budget.py).
func encoding(r *operator.Rank, image *models.Media, tokens float64) unit.Bytes {
	if image.Tokens == 0 {
		return 0
	}
	const streams, perceptron = 4, 2 * 4
	rows := image.Rows * max(tokens/float64(image.Tokens), 1)
	return r.Bytes(rows * float64(image.Width) * (streams + perceptron/float64(r.Par.TP)))
}

// allocation is how the release shares out the memory of a rank.
func (v vllmMemory) allocation(r *operator.Rank, g *hardware.GPU) *operator.Allocation {
	scheduler := vllmSchedulerOf(v.version)
	a := &operator.Allocation{Loaded: extraWeights(r), Outside: v.outside(r, g), Graphs: v.graphMemory(r),
		Sequences: cmp.Or(r.Settings.Sequences, scheduler.on(g).MaxSeqs), Peak: v.peak(r, g)}
	if v.swizzled(r, g) {
		a.Loaded += v.swizzle().more(r)
	}
	if v.before(version{0, 5, 4}) { // A step has room for a whole prompt of the longest request.
		a.Whole = max(r.Settings.Longest, leastWhole)
	}
	a.Caches = func(budget float64) []operator.Pages { return vllmPages(r, v.steps(r)*budget) }
	a.Log = func(cache unit.Bytes, longest, budget float64) operator.Log {
		return v.log(a.Caches(budget), cache, longest, v.extraStates(r, g))
	}
	return a
}

// steps is how many steps are in flight, whose tokens windows hold at worst: two, and with PP one of each stage and in the second runner
// another (max_concurrent_batches).
func (v vllmMemory) steps(r *operator.Rank) float64 {
	switch stages := float64(r.Par.PP); {
	case !v.since(26): // max_in_flight_tokens of vllm/config/vllm.py
		return 1
	case stages == 1:
		return 2
	case v.runner2(r.Model):
		return stages + 1
	default:
		return stages
	}
}

// extraStates is how many states a request holds at worst besides its own where prefixes are cached (MambaSpec.max_memory_usage_bytes). The
// prefixes of hybrids are cached by default since 0.28 (is_prefix_caching_supported of vllm/config/model.py). Steps of prompts write
// states of Mamba 2 within them since 0.32 (num_prefill_checkpoint_blocks), and FlashInfer's those of gated delta nets since 0.33.
func (v vllmMemory) extraStates(r *operator.Rank, g *hardware.GPU) float64 {
	if r.Settings.NoPrefixCache || !v.since(28) && !r.Settings.PrefixCache {
		return 0
	}
	if r.Model.Any(func(b *models.Block) bool {
		return b.Scan != nil && (v.since(32) && b.Scan.Kind == models.Mamba2 ||
			v.since(33) && b.Scan.DeltaPerHead() && (hopper(g) || dataCentreBlackwell(g)))
	}) {
		return 2
	}
	return 1
}

// log is the line "GPU KV cache size: N tokens, Maximum concurrency for L tokens per request: X" (update_kv_cache_capacity and
// _report_kv_cache_config of vllm/v1/core/kv_cache_utils.py). All groups draw their blocks from one pool.
// A request has so many states besides those of its groups.
func (v vllmMemory) log(groups []operator.Pages, cache unit.Bytes, longest, beside float64) (l operator.Log) {
	if len(groups) == 0 {
		return l
	}
	blocks, least, held := math.Floor(float64(cache/groups[0].Each)), math.Inf(1), 0.0
	for i := range groups {
		p := &groups[i]
		if held += p.Count(longest); p.State {
			held += beside
		}
		least = min(least, p.Tokens)
	}
	l.Blocks, l.Requests = blocks, blocks/held
	l.Tokens = math.Floor(l.Requests * longest)
	if !v.since(21) { // Since then the log's tokens are requests of the longest length times that length.
		l.Tokens = math.Floor(blocks/float64(len(groups))) * least
	}
	return l
}

// leastWhole is the least tokens of a step of vLLM's releases that do not cut prompts by default: those up to 0.5.3, whose steps have as
// many as the longest request (SchedulerConfig of vllm/config.py in 0.4.3).
const leastWhole = 2048

// heldByPass is what PyTorch's allocator holds after the profiled step, with the blocks that it keeps for itself: vLLM before 0.6.4 asks
// the driver for the memory that is free then (determine_num_available_blocks of vllm/worker/worker.py). The residual stream, its normed
// copy, the results of all products of attention and of the first product of a multi-layer perceptron have blocks of their own, since none
// is as large as the next. The activation finds room where queries, keys and values were. GPUs without FlashAttention have the results of
// attention twice (XFormersImpl of vllm/attention/backends/xformers.py).
func heldByPass(r *operator.Rank, g *hardware.GPU) func(tokens, sequences float64) unit.Bytes {
	results := 1.0
	if g.Vendor == nvidia && capability(g) < 8 {
		results = 2
	}
	var attention, perceptron float64
	for _, b := range r.Model.Blocks() {
		width := 0.0
		for i := range b.In {
			width += float64(b.In[i].Out) / float64(max(b.In[i].Parts(r.Par.TP), 1))
		}
		if a := b.Attention; a != nil {
			attention = max(attention, width+results*float64(a.Heads*a.ValueDim)/float64(r.Par.TP))
			continue
		}
		perceptron = max(perceptron, width)
	}
	width := 3*float64(r.Model.Hidden) + attention + perceptron
	return func(tokens, sequences float64) unit.Bytes {
		experts := workspaces(r, tokens)
		scores := unit.Bytes(sequences * float64(r.Model.Head.Out) * firstRunnerScores)
		return max(r.Bytes(tokens*width)+experts, scores)
	}
}
