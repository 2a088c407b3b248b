package engine

import (
	"fmt"
	"math"
	"strings"

	"llmprof/analytic"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// vllm is vLLM's V1 engine of 2026: asynchronous scheduling, chunked prefill, full CUDA
// graphs of decode steps and piecewise CUDA graphs of short prompts.
var vllm = graphed{profile: analytic.Profile{
	Name: "vllm", Pipelined: true, // max_concurrent_batches of its executors
	Source: "vLLM 0.25.1, asynchronous scheduling, CUDA graphs; host time of steps that no prediction is scored on, of 70 processes, and " +
		"kernels of llama3.1-8b's traces " +
		"on an H200 and on H100s (experiments/vllm/host.py); 92 % of the memory, 1.1 GB of it for graphs and buffers, as the KV cache that it " +
		"had left says",
	Constants: vllmServerConstants, Operators: tabled("vllm"), Reserve: 1.1e9, Budget: budget("vllm"), Utilization: taking(0.92),
	HostError: vllmHostError,
	Support:   vllmRuns, Padding: vllmPadding, Sampler: sortedLogits,
}, rows: vllmGraphs, pieces: vllmGraphs, sampling: 30, overlaps: 256, gathers: true, tiles: vllmTile, grouped: vllmExpertTile,
	grain: vllmExpertGrain, triton: true}

// vllmScheduler takes steps of 8192 tokens and 1024 sequences, but of 2048 and 256 on GPUs with less than 70 GiB and on
// every A100, whose throughput larger steps reduce (vllm/engine/arg_utils.py since pull request 17885).
var vllmScheduler = sized{
	Scheduler{Name: "vllm", Budget: 8192, MaxSeqs: 1024, Block: 16, Mixed: true, Async: true},
	func(s *Scheduler, g *hardware.GPU) {
		if g.Capacity() < 70*(1<<30) || strings.Contains(strings.ToLower(g.Name), "a100") {
			s.Budget, s.MaxSeqs = 2048, 256
		}
	},
}

var vllm2024Scheduler = sized{Scheduler: Scheduler{Name: "vllm-2024", Budget: 32768, MaxSeqs: 256, Block: 16, Whole: true, Watermark: 0.01}}

// vllm2024 stands for releases up to mid-2024.
var vllm2024 = fused{profile: analytic.Profile{
	Name: "vllm-2024",
	Source: "releases up to mid-2024: synchronous host time of 2.1 ms a step, which may take up to 1.8 times as long: what vLLM 0.6.0 " +
		"gained over 0.5.3 by its authors' account",
	Constants: func(c *roofline.Constants) {
		setDefault(c, roofline.HostStep, 2.1e-3)
	},
	Older: older, Reserve: 3.5e9, Support: analytic.Support{Not: vllmRuns.Not, Vendors: vllmRuns.Vendors, Builds: vllmRuns.Builds,
		Capability: 7, Acts: vllmRuns.Acts, KV: vllmRuns.KV},
}}

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

// vllmConstants sets the constants of vLLM's host, measured on a Xeon with 16 cores. The host's
// time of a decode step comes from llama3.2-1b, and that of each sequence from llama3.2-3b in FP8 too, whose kernels take less
// time than the host (experiments/vllm/sequences.py).
// The times of a launch and of a call come from steps of 70 processes on six machines, none of which are scored
// (experiments/vllm/host.py).
func vllmConstants(c *roofline.Constants) {
	setDefault(c, roofline.HostAsync, vllmAsync)
	setDefault(c, roofline.HostSequence, 20e-6)
	setDefault(c, roofline.HostLaunch, vllmLaunch)
	setDefault(c, roofline.HostDispatch, 131e-6)
	setDefault(c, roofline.HostRequest, vllmRequest)
	setDefault(c, roofline.HostSmallKernel, 2.9e-6)
	setDefault(c, roofline.MoEPrefillCompute, 0.5)
	setDefault(c, roofline.MoEPrefillMemory, 0.8)
	setDefault(c, roofline.MoEPrefillPermute, 1)
	setDefault(c, roofline.MoEPrefillUnpermute, 1.2)
}

const vllmAsync, vllmRequest, vllmLaunch = 2.4e-3, 2.4e-3, 40e-6

// sortedLogits is the memory that vLLM's V1 model runner, which runs mixtures, reserves for
// sampling with the maximum number of sequences: logits in float32, sorted logits, and
// indices of 8 bytes (vllm/v1/sample/ops/topk_topp_sampler.py). The V2 model runner, which
// runs dense models, samples without a sort.
func sortedLogits(m *models.Model, g *hardware.GPU) unit.Bytes {
	if !m.HasExperts() {
		return 0
	}
	s, _ := SchedulerOf("vllm", g)
	return unit.Bytes(float64(s.MaxSeqs) * float64(m.Vocab) * (4 + 4 + 8))
}

// vllmHostError is the relative error of the host's time: 90 % of the launch times of prompts
// lay between 0.65 and 1.45 times the constants, over repeats, processes and six machines
// (experiments/vllm/host.py).
const vllmHostError = 0.5

// vllmServerConstants adds the constants of vLLM's API server, which is one thread of Python, measured
// where little but that thread limits the server (experiments/h100-vllm-apiserver). The intake is that of
// prompts of 1024 tokens, between 1.0 and 1.6 ms on six hosts.
func vllmServerConstants(c *roofline.Constants) {
	vllmConstants(c)
	setDefault(c, roofline.HostIntake, 1.2e-3)
	setDefault(c, roofline.HostToken, 39e-6)
	setDefault(c, roofline.HostFinish, 0.62e-3)
}

// vllmGraphs gives the CUDA graphs that vLLM captures unless --max-cudagraph-capture-size says otherwise: of up to 512
// tokens, and of gpt-oss 1024 (GptOssForCausalLMConfig in vllm/model_executor/models/config.py).
func vllmGraphs(l *analytic.Lowering, tokens float64) (rows float64, ok bool) {
	if l.Step.Model.Family == "gpt_oss" {
		return vllmRows(1024)(l, tokens)
	}
	return vllmRows(512)(l, tokens)
}

// vllmRows gives CUDA graphs of 1, 2 and 4 tokens, of multiples of 8 up to 256 and of multiples of 16 up to most.
func vllmRows(most float64) captured {
	return func(_ *analytic.Lowering, tokens float64) (rows float64, ok bool) {
		switch {
		case tokens > most:
			return 0, false
		case tokens <= 2:
			return math.Ceil(tokens), true
		case tokens <= 4:
			return 4, true
		case tokens <= 256:
			return min(8*math.Ceil(tokens/8), most), true
		}
		return min(16*math.Ceil(tokens/16), most), true
	}
}

// taking is an engine's share of the memory of every GPU.
func taking(share float64) func(unit.Bytes) float64 { return func(unit.Bytes) float64 { return share } }

// WithGraphs is vLLM with CUDA graphs of steps of up to so many tokens, the setting
// --max-cudagraph-capture-size of vLLM.
func WithGraphs(e analytic.Engine, tokens int) (analytic.Engine, error) {
	g, ok := e.(*graphed)
	if !ok || g.profile.Engine() != vllm.profile.Name || tokens < 1 {
		return nil, fmt.Errorf("graphs of steps of up to %d tokens: vllm alone has such a setting, and it is 1 or more", tokens)
	}
	set := *g
	set.rows = vllmRows(float64(tokens))
	set.pieces = set.rows
	return &set, nil
}

// older is the additional time of older releases, as a share of the time. According to the authors
// of vLLM, 0.6.0 of September 2024 has 1.8 (70B on four H100) to 2.7 (8B on one) times the
// throughput of 0.5.3, which spent 62 % of its time with 8B in the HTTP server and the scheduler
// (blog.vllm.ai/2024/09/05/perf-update.html); the smaller factor is taken. NVIDIA says that
// TensorRT-LLM's least latency of Llama 70B improved 3.5 times in less than a year
// ("What's the ROI? Getting the Most Out of LLM Inference", 2024).
const older = 0.8

func setDefault(c *roofline.Constants, k roofline.Constant, v float64) {
	if c[k] == 0 {
		c[k] = v
	}
}
