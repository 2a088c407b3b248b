package engine

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// vllm is vLLM's V1 engine of 2026: asynchronous scheduling, chunked prefill, full CUDA
// graphs of decode steps and piecewise CUDA graphs of short prompts.
var vllm = Engine{
	profile: analytic.Profile{
		Name: "vllm", Pipelined: true, // max_concurrent_batches of its executors
		Source: "vLLM 0.25.1, asynchronous scheduling, CUDA graphs; host time of steps that no prediction is scored on, of 70 " +
			"processes, and kernels of llama3.1-8b's traces on an H200 and on H100s (experiments/vllm/host.py); 92 % of the memory, " +
			"shared out as its start-up does",
		Constants: vllmServerConstants, Tabled: true, Operators: tabled("vllm"), Budget: vllmScheduler.pass, Utilization: taking(0.92),
		HostError: vllmHostError, Support: vllmRuns, Padding: vllmPadding, Allocate: vllmAllocation(version{0, 25, 1}),
		State: vllmStates, Early: vllmEarly,
	},
	title: "vLLM",
	releases: releases{timed: []string{"0.25.1", "0.25", "0.24"}, spread: 0.145, patches: []patch{
		{from: version{0, 11, 1}, until: version{0, 15, 0}, what: "DeepGEMM runs experts in FP8 by blocks on Hopper at every number of rows, " +
			"from when scales in E8M0 were the default there until backends were ranked",
			source: "vllm-project/vllm, pull requests 26197 and, by its date, 32414; triton_deep_gemm_moe.py",
			apply:  func(e *Engine, _ version) { e.layout = alignExperts }},
		{until: version{0, 14, 0}, what: "nothing hides the host's time", source: "vllm-project/vllm, pull request 27614", apply: vllmBlocks},
		{until: version{0, 11, 1}, what: "shared experts run after the routed ones", source: "vllm-project/vllm, pull request 26440",
			apply: func(e *Engine, _ version) { e.overlaps = 0 }},
		{until: version{1}, what: "memory is shared out as its start-up does", source: "gpu_worker.py and kv_cache_utils.py of 0.14 to 0.32",
			apply: vllmStartsAs},
		{from: version{0, 28, 0}, what: "steps have 16384 tokens on GPUs of 160 GiB and more, and since 0.33 2048 on a GB10",
			source: "get_batch_defaults of vllm/engine/arg_utils.py of 0.27.1 to 0.33", apply: vllmSchedulesAs},
		{until: version{0, 20, 0}, what: "it takes 90 % of the memory", source: "gpu_memory_utilization of vllm/config/cache.py of 0.19",
			apply: func(e *Engine, _ version) { e.profile.Utilization = taking(0.9) }},
	}},
	options: map[string]func(*Engine){
		deepEP:    deepEPOf(tritonHost), // --all2all-backend deepep_high_throughput or deepep_low_latency
		gdnTriton: func(e *Engine) { e.kernels[operator.ChunkedScan] = vllmTritonScans.scan },
	},
	captures:   vllmCaptures,
	schedulers: []sized{vllmScheduler}, launch: vllmLaunch, templates: true, resolve: vllmResolve, note: vllmNote,
	images: map[string]string{"": "vllm/vllm-openai:latest", amd: "vllm/vllm-openai-rocm:latest", google: "vllm/vllm-tpu:latest"},
	lower:  lowerServed, decodes: vllmGraphs, prompts: vllmGraphs, overlaps: 256, tile: vllmTile,
	// Attention of vLLM's operator tables includes the write to the cache, but in vLLM's own traces attention takes as long
	// without it, for CUDA graphs hold the most parts of the keys (experiments/h200-vllm/traces).
	kernels: kernels{
		operator.Index: choose, operator.Attend: sparsely(lowerFused, false),
		operator.Rotary: rotary, operator.CacheWrite: separate, operator.Product: apart(unpacked(product)), operator.Sampling: sampling(30),
		operator.TopK: tritonHost.route, operator.ExpertProduct: tritonHost.productsOfAll, operator.ExpertNonLinear: activate,
		operator.Shuffle: gather, operator.Conv: vllmScans.conv, operator.Scan: vllmScans.step, operator.ChunkedScan: vllmScans.scan,
	},
}

// vllmEarly is how many prompts of a batch that is sent at once share the first step: the engine begins with what has arrived
// (_process_input_queue of vllm/v1/engine/core.py), and launches that step before it looks for more. Of eight prompts two to four came
// in time (experiments/h200-pair).
const vllmEarly = 2

// vllmStates is the format of recurrent states where a config names none: FP32 of Nemotron-H (NemotronHForCausalLMConfig of
// vllm/model_executor/models/config.py).
func vllmStates(m *models.Model) unit.Format {
	if m.Family == "nemotron_h" {
		return unit.FP32
	}
	return unit.NoFormat
}

// vllmScheduler is the scheduler of the server at the timed release.
var vllmScheduler = vllmSchedulerOf(version{0, 25, 1})

// vllmSchedulerOf is the scheduler of the server at a release. It takes steps of 8192 tokens and 1024 sequences, but of 2048 and 256 on
// GPUs with less than 70 GiB and on every A100, whose throughput larger steps reduce (get_batch_defaults of vllm/engine/arg_utils.py,
// by the wheels of 0.21 to 0.33, since pull request 17885). Since 0.28 steps have 16384 tokens on GPUs with 160 GiB and more, and since
// 0.33 a GB10 has the small values, for all its memory.
func vllmSchedulerOf(v version) sized {
	large, gb10Small := !v.before(version{0, 28, 0}), !v.before(version{0, 33, 0})
	return sized{
		Scheduler{Name: "vllm", Budget: 8192, MaxSeqs: 1024, Block: 16, Mixed: true, Async: true, Streams: 1},
		func(s *Scheduler, g *hardware.GPU) {
			gb10 := g.Vendor == nvidia && g.ComputeCapability == "12.1"
			switch memory := g.Capacity(); {
			case memory < 70*gib, strings.Contains(strings.ToLower(g.Name), "a100"), gb10 && gb10Small:
				s.Budget, s.MaxSeqs = 2048, 256
			case memory >= 160*gib && large:
				s.Budget = 16384
			}
		},
	}
}

// vllmSchedulesAs makes an engine schedule as its release does.
func vllmSchedulesAs(e *Engine, at version) {
	own := vllmSchedulerOf(at)
	e.schedulers, e.profile.Budget = []sized{own}, own.pass
}

// vllm2024 stands for releases up to mid-2024.
var vllm2024 = Engine{
	lower: lowerPlain,
	profile: analytic.Profile{
		Name: "vllm-2024",
		Source: "releases up to mid-2024: synchronous host time of 2.1 ms a step, which may take up to 1.8 times as long: what vLLM " +
			"0.6.0 gained over 0.5.3 by its authors' account",
		Constants: defaults{{roofline.HostStep, 2.1e-3}}.set, Older: older, Reserve: 2.5e9,
		Support: analytic.Support{Not: vllmRuns.Not, Vendors: vllmRuns.Vendors, Builds: vllmRuns.Builds, Capability: 7, Acts: vllmRuns.Acts,
			KV: vllmRuns.KV},
	},
	schedulers: []sized{{Scheduler: Scheduler{Name: "vllm-2024", Budget: 32768, MaxSeqs: 256, Block: 16, Whole: true, Watermark: 0.01}}},
}

// vllmRuns is read from the registry of vLLM 0.32.0 (vllm/model_executor/models/registry.py)
// and its documentation of hardware and quantization: GPUs of NVIDIA from Turing on, those of
// AMD in gpu.rocm.inc.md, of Intel, and TPUs by a plugin. It has no products in 4-bit integers. Marlin's kernels for MXFP4 need Ampere
// (docs/features/quantization); FP8 on AMD needs CDNA or RDNA 4, and NVFP4 CDNA, for which Petit has kernels (supports_fp8
// and supported_quantization of vllm/platforms/rocm.py); those of XPUs and TPUs have no NVFP4 (platforms/xpu.py, tpu-inference).
var vllmRuns = analytic.Support{
	Default: true, Not: []string{"gpt_neo", "recurrent_gemma", "rwkv"}, Vendors: []string{nvidia, amd, intel, google}, Capability: 7.5,
	Acts: []unit.Format{unit.BF16, unit.FP16, unit.FP32, unit.FP8, unit.INT8, unit.NVFP4, unit.MXFP4},
	KV:   []unit.Format{unit.BF16, unit.FP16, unit.FP32, unit.FP8}, OwnCache: true, Split: vllmSplit, WholeBlocks: true,
	Builds: map[string][]string{amd: {"gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1101", "gfx1150", "gfx1151", "gfx1200", "gfx1201"}},
	Lacks: map[string][]unit.Format{
		"turing": {unit.MXFP4}, "rdna3": {unit.FP8, unit.NVFP4}, "rdna4": {unit.NVFP4},
		"xe-hpg": {unit.NVFP4}, "xe2": {unit.NVFP4}, "gaudi3": {unit.NVFP4}, "tpu": {unit.NVFP4},
	},
}

// vllmSplit is the rule of vLLM's FusedMoEParallelConfig.make (vllm/model_executor/layers/fused_moe/config.py): TP and DP
// make one group of ranks, which has either whole experts or a part of each.
func vllmSplit(p *operator.Parallelism) string {
	if p.EP > 1 && p.ExpertTP() > 1 {
		return fmt.Sprintf("has whole experts on a rank (--enable-expert-parallel) or a part of each, over all ranks of TP and DP: want ep "+
			"%d, or ep 1 with moe-tp %d, not ep %d with moe-tp %d",
			p.ExpertRanks(), p.ExpertRanks(), p.EP, p.ExpertTP())
	}
	return ""
}

// vllmNote says that replicas with experts of their own are not those of one server.
func vllmNote(m *models.Model, p *operator.Parallelism) []unit.Warning {
	if !m.HasExperts() || p.DP == p.ExpertReplicas() {
		return nil
	}
	n := p.TP * p.DP
	return []unit.Warning{unit.Warn("experts_not_shared", "%d servers, each with experts of its own: the replicas of one vllm server share "+
		"them, as {moe_tp} %d has it without expert parallelism and {ep} %d with it", p.DP/p.ExpertReplicas(), n, n)}
}

// vllmConstants sets the constants of vLLM's host, measured on a Xeon with 16 cores. The host's
// time of a decode step comes from llama3.2-1b, and that of each sequence from llama3.2-3b in FP8 too, whose kernels take less
// time than the host (experiments/vllm/sequences.py).
// The times of a launch and of a call come from steps of 70 processes on six machines, none of which are scored
// (experiments/vllm/host.py).
var vllmConstants = defaults{
	{roofline.HostAsync, vllmAsync}, {roofline.HostSequence, 20e-6}, {roofline.HostLaunch, vllmLaunchTime}, {roofline.HostDispatch, 131e-6},
	{roofline.HostRequest, vllmRequest}, {roofline.HostSmallKernel, 2.9e-6},
	{roofline.MoEPrefillCompute, 0.5}, {roofline.MoEPrefillMemory, 0.8}, {roofline.MoEPrefillPermute, 1}, {roofline.MoEPrefillUnpermute, 1.2},
}

const vllmAsync, vllmRequest, vllmLaunchTime = 2.4e-3, 2.4e-3, 40e-6

// vllmServerConstants adds the constants of vLLM's API server, which is one thread of Python, measured
// where little but that thread limits the server (experiments/h100-vllm-apiserver). The intake is that of
// prompts of 1024 tokens, between 1.0 and 1.6 ms on six hosts.
func vllmServerConstants(c *roofline.Constants) {
	vllmConstants.set(c)
	defaults{{roofline.HostIntake, 1.2e-3}, {roofline.HostToken, 39e-6}, {roofline.HostFinish, 0.62e-3}}.set(c)
}

// vllmBlocks makes vLLM one without asynchronous scheduling, which is the default since 0.14. Without it, steps of llama3.1-8b by 0.25.1
// take longer by these times, and TTFT does not change (experiments/h200-vllm-sync). No such release's host was measured.
func vllmBlocks(e *Engine, _ version) {
	const step = 0.97e-3
	e.profile.Blocking, e.profile.HostError = true, eagerHostError
	e.profile.Constants = func(c *roofline.Constants) {
		defaults{{roofline.HostStep, step}, {roofline.HostSequence, 11.2e-6}, {roofline.HostRequest, vllmRequest + vllmAsync - step}}.set(c)
		vllmServerConstants(c)
		c[roofline.HostAsync] = 0
	}
}

// vllmHostError is the relative error of the host's time: 90 % of the launch times of prompts
// lay between 0.65 and 1.45 times the constants, over repeats, processes and six machines
// (experiments/vllm/host.py).
const vllmHostError = 0.5

// vllmPadding is what mxfp4_round_up_hidden_size_and_intermediate_size rounds to for FlashInfer's kernels and AMD's, for
// Triton's on Hopper, and for Marlin's on other GPUs. What padding costs in time is known of FlashInfer alone: the times of
// the others are fitted to widths without it.
func vllmPadding(g *hardware.GPU) operator.Padding {
	if hopper(g) {
		return operator.Padding{Width: 64}
	}
	return vllmMarlinPadding(g)
}

// vllmMarlinPadding is what it rounds to where Marlin, and not Triton, runs the experts on Hopper.
func vllmMarlinPadding(g *hardware.GPU) operator.Padding {
	switch {
	case dataCentreBlackwell(g) || g.Vendor == amd:
		return operator.Padding{Hidden: 256, Width: 256}
	case g.Vendor == nvidia:
		return operator.Padding{Hidden: 256, Width: 128}
	}
	return operator.Padding{}
}

// taking is an engine's share of the memory of every GPU.
func taking(share float64) func(unit.Bytes) float64 { return func(unit.Bytes) float64 { return share } }

// older is the additional time of older releases, as a share of the time. According to the authors
// of vLLM, 0.6.0 of September 2024 has 1.8 (70B on four H100) to 2.7 (8B on one) times the
// throughput of 0.5.3, which spent 62 % of its time with 8B in the HTTP server and the scheduler
// (blog.vllm.ai/2024/09/05/perf-update.html); the smaller factor is taken. NVIDIA says that
// TensorRT-LLM's least latency of Llama 70B improved 3.5 times in less than a year
// ("What's the ROI? Getting the Most Out of LLM Inference", 2024).
const older = 0.8

// vllmGraphs are the CUDA graphs that vLLM captures unless --max-cudagraph-capture-size says otherwise.
var vllmGraphs = captured{vllmSizes, func(l *analytic.Lowering) float64 { return vllmLargest(&l.Step.Rank) }}

const vllmUsual = 512

// vllmLargest is the most tokens of a CUDA graph: 512, and of gpt-oss 1024 (GptOssForCausalLMConfig in
// vllm/model_executor/models/config.py), but no more than two decode steps of all sequences have (_set_cudagraph_sizes of
// vllm/config/vllm.py).
func vllmLargest(r *operator.Rank) float64 {
	largest := float64(vllmUsual)
	if r.Model.Family == "gpt_oss" {
		largest = 1024
	}
	if n := r.Settings.Sequences; n > 0 {
		largest = min(largest, float64(2*n*(1+r.Settings.Drafts)))
	}
	return largest
}

// vllmSizes are 1, 2 and 4 tokens, multiples of 8 up to 256 and multiples of 16 beyond.
var vllmSizes = sizes{{2, 1}, {4, 4}, {256, 8}, {math.Inf(1), 16}}

// vllmCaptures lets prompts have the graphs of --max-cudagraph-capture-size too, or none with --enforce-eager.
func vllmCaptures(e *Engine) {
	if e.graphs.Eager {
		e.kernels[operator.Norm], e.kernels[operator.Rotary] = vllmEagerNorm, vllmEagerRotary
		return
	}
	e.prompts = e.decodes
	byDefault := e.profile.Allocate
	e.profile.Allocate = func(r *operator.Rank, g *hardware.GPU) *operator.Allocation {
		a := byDefault(r, g)
		a.Graphs = a.Graphs.Times(vllmSizes.count(float64(e.graphs.Most)) / vllmSizes.count(min(vllmLargest(r), vllmUsual)))
		return a
	}
}

// vllmEagerNorm makes the kernels of a norm that torch.compile does not make one. Gemma's, which multiplies by a weight and one, has no
// kernel in vLLM: PyTorch runs ten operators, three more with the residual sum, whose launches take the host half as long as those of
// other kernels, and which write their results in FP32 (GemmaRMSNorm of layernorm.py, 0.33; experiments/h200-hybrids).
func vllmEagerNorm(l *analytic.Lowering, i int) {
	k := fused(l, i)
	if l.Ops[i].Type == operator.Norm && addsOne(l.Step.Model) {
		k.Helpers = 5 - k.Launches
		k.Work.Acts = k.Work.Acts.Times(7)
	}
}

// vllmEagerRotary makes the kernels of rotary embedding, with norms of queries and of keys ahead of it in Gemma. Qwen's have a kernel for
// all.
func vllmEagerRotary(l *analytic.Lowering, i int) {
	if rotary(l, i); headNorms(&l.Ops[i]) && strings.HasPrefix(l.Step.Model.Family, "gemma") {
		l.Kernels[len(l.Kernels)-1].Helpers = 2*5 - 1
	}
}

// addsOne reports whether the norms of a model multiply by a weight and one.
func addsOne(m *models.Model) bool {
	return slices.ContainsFunc([]string{"gemma", "qwen3_next", "qwen3_5"}, func(f string) bool { return strings.HasPrefix(m.Family, f) })
}

// vllmScans is how vLLM runs recurrences (_forward_core of qwen_gdn_linear_attn.py, 0.33; traces of experiments/h200-hybrids). Beside the
// rule there are eight kernels. One of Triton's splits, norms and gates. Seven of PyTorch's convert indices twice, gather the states, find
// the states of new sequences, zero these, store all, and copy the results. The tables have two that convert lengths and gates and
// FlashInfer's, which may be two, or six of Triton's and a fill. Graphs have a kernel that clears the results, and the gated norm. Python
// takes some 110 to 170 µs for a kernel of Triton's where PyTorch's sum of two vectors takes 13 (the same experiment).
var vllmScans = scanHost{norms: 2, triton: vllmTriton, states: vllmTriton + 1, prompt: func(l *analytic.Lowering) scanLaunches {
	if hopper(l.GPU) || dataCentreBlackwell(l.GPU) {
		return scanLaunches{untabled: 8, moves: vllmTriton + 7, tabled: 4}
	}
	return vllmTritonScans.prompt(l)
}}

// vllmTritonScans has the gated delta rule by Triton on every GPU, as vLLM has it where FlashInfer is not installed.
var vllmTritonScans = scanHost{norms: 2, triton: vllmTriton, states: vllmTriton + 1, prompt: func(*analytic.Lowering) scanLaunches {
	return scanLaunches{untabled: 8, moves: vllmTriton + 7, tabled: vllmTriton*6 + 1}
}}

// vllmTriton is the launches of vLLM's host that a kernel of Triton's counts as where Python launches it.
const vllmTriton = 3

// gdnTriton is the option of vLLM that runs prompts of gated delta nets by Triton instead of FlashInfer: --gdn-prefill-backend triton.
const gdnTriton = "gdn-triton"

// alignExperts pads the experts in FP8 by blocks of vLLM where DeepGEMM runs them in its contiguous layout. The host
// does not wait to know how many pairs each expert has. The layout has as many rows as can be needed: one for each
// pair, and those that make each expert a multiple of 128. DeepGEMM does not multiply a tile beyond the last pair, but loads its
// operands (get_global_idx of its scheduler). Activation and quantization run over all rows. With a TP of 8 vLLM leaves experts to Triton
// (vllm-project/vllm, pull request 29346).
func alignExperts(l *analytic.Lowering) {
	const alignment, everyExpert = 128, 1e9 // so many tokens are sent to every expert
	k := groupedKernel(l)
	if k == nil || k.Scheme != roofline.FP8Block || !hopper(l.GPU) || l.Step.Par.TP == 8 {
		return
	}
	experts, _ := l.Step.Chosen(&k.Shape, everyExpert)
	rows := k.Shape.Pairs + (alignment-1)*experts
	k.Work.Weights = k.Work.Weights.Times(rows / alignment / k.Shape.Hit)
	empty := rows - k.Shape.Pairs
	k.Shape.Hit = rows / alignment
	moves := l.Launch(k.Main, roofline.Elementwise, 0)
	moves.Work, moves.Graphed = roofline.Work{Acts: moved(l, empty)}, true
}

// moved is the bytes that rows of experts move besides the weights: results of the first products are written and
// read, those of the activation are written, read, and written in FP8, and those of the last products are written.
func moved(l *analytic.Lowering, rows float64) (bytes unit.Bytes) {
	last := 0
	for i := l.Next(0, operator.ExpertProduct); i >= 0; i = l.Next(i+1, operator.ExpertProduct) {
		bytes += l.Step.Bytes(2 * rows * l.Ops[i].Shape.N)
		last = i
	}
	o := &l.Ops[last]
	return bytes - l.Step.Bytes(rows*o.Shape.N) + l.Step.Bytes(2*rows*o.Shape.K) + unit.FP8.Bytes(rows*o.Shape.K)
}

// vllmTile sets the tile of vLLM's GEMMs in FP8 by CUTLASS on Hopper, and of its grouped GEMMs.
func vllmTile(g *hardware.GPU, k *roofline.Kernel) {
	switch {
	case k.Class == roofline.GroupedGEMM:
		padExperts(k, flashInferPadding(g, k.Scheme))
		k.Tile = roofline.Tile{Rows: vllmExpertRows(g, k), Unpacks: tritonMXFP4(g, k.Scheme)}
	case k.Class == roofline.GEMM && k.Scheme == roofline.FP8 && hopper(g):
		k.Tile = vllmFP8Tile(&k.Shape)
	}
}

// vllmFP8Tile is the tile that CUTLASS takes by the rows and sides of the GEMM
// (csrc/libtorch_stable/quantization/w8a8/cutlass/c3x/scaled_mm_sm90_fp8_dispatch.cuh of vLLM). Up to 64 rows the
// operands are swapped, and blocks of a cluster without rows end at once.
func vllmFP8Tile(s *roofline.Shape) roofline.Tile {
	switch {
	case s.M <= 16, s.M <= 64 && s.N <= 1280:
		return roofline.Tile{Rows: 16, Columns: 64, Blocks: 1}
	case s.M <= 64:
		return roofline.Tile{Rows: 64, Columns: 64, Blocks: 1}
	case s.M <= 128:
		return roofline.Tile{Rows: 128, Columns: 128, Blocks: 2}
	case s.M >= 8192 && s.K >= 6144:
		return roofline.Tile{Rows: 512, Columns: 128, Blocks: 2}
	}
	return roofline.Tile{Rows: 256, Columns: 128, Blocks: 2}
}

// vllmExpertRows is the rows of a tile of vLLM's grouped GEMMs. Triton runs experts in MXFP4 on Hopper, Marlin those with weights in INT4,
// and FlashInfer the others.
func vllmExpertRows(g *hardware.GPU, k *roofline.Kernel) float64 {
	switch {
	case tritonMXFP4(g, k.Scheme):
		return ragged(k)
	case k.Scheme == roofline.WeightINT4:
		return marlinRows(g, k)
	}
	return flashInferRows(g, k)
}

// vllmLaunch is the server of vLLM 0.25 to 0.32. Replicas are engines of one server, which routes among
// them. It splits experts over all of its replicas, by tensors or, with expert parallelism, whole ones: replicas that have
// experts of their own are servers of their own.
func vllmLaunch(d *Deployment) *args {
	a := command("vllm", "serve", d.Checkpoint)
	a.above("--tensor-parallel-size", d.TP)
	a.above("--pipeline-parallel-size", d.PP)
	replicas, prefill := d.Replicas, fmt.Sprintf(" with --data-parallel-size %d", d.Prefill)
	if d.Model.HasExperts() {
		replicas, prefill = d.Sharing, ""
		a.noteIf(d.servers() > 1,
			"start %d of these servers behind a router: vLLM splits the experts over all replicas of one server", d.servers())
	}
	a.above("--data-parallel-size", replicas)
	a.when(d.EP > 1, "--enable-expert-parallel")
	a.when(d.runs(deepEP), "--all2all-backend", "deepep_low_latency") // its decode steps are CUDA graphs
	a.when(d.runs(gdnTriton), "--gdn-prefill-backend", "triton")
	a.graphFlags(d, "--enforce-eager", "--max-cudagraph-capture-size")
	a.quantize(d, "--quantization", map[unit.Format]string{unit.FP8: "fp8"})
	a.when(d.KV == unit.FP8, "--kv-cache-dtype", "fp8")
	s, ok := d.start(d.budget(&vllmScheduler), d.Context, d.Batch)
	if !ok {
		return nil
	}
	a.number("--max-model-len", s.longest)
	a.number("--max-num-seqs", s.sequences)
	a.number("--max-num-batched-tokens", s.budget)
	if d.Drafts > 0 {
		method := `"method": "ngram", "prompt_lookup_max": 4`
		if d.Model.Drafts > 0 {
			method = `"method": "mtp"`
		}
		a.add("--speculative-config", fmt.Sprintf(`{%s, "num_speculative_tokens": %d}`, method, d.Drafts))
	}
	if d.Prefill > 0 {
		a.add("--kv-transfer-config", `{"kv_connector": "NixlConnector", "kv_role": "kv_both"}`)
		a.note("this is the server that decodes: start %d more for prefill, by the same command%s, and a proxy that sends each request to "+
			"both in turn", d.Prefill, prefill)
	}
	a.noteIf(d.GPU.Vendor == google, "install vllm-tpu, which has vLLM's plugin for TPUs; constants of its kernels were measured on none")
	a.nodes(d)
	return a
}
