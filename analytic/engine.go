package analytic

import (
	"fmt"
	"strings"

	"llmprof/unit"
)

// An Engine says what an inference engine adds to the kernels that the model
// needs: unfused operators, launches, time on the host.
type Engine struct {
	Name   string
	Source string

	Fused   bool         // norms, rotary, activations and cache writes are one kernel each
	Carries Carries      // of them, which are within others
	OneShot bool         // small all-reduces over NVLink take one exchange over peer memory
	Host    unit.Seconds // of the host in every step, not hidden behind the GPU
	Launch  unit.Seconds // of the host for every kernel, hidden behind the GPU
	Stream  bool         // a prefill's kernels are launched one by one, by a host that is ahead of the GPU
	Graph   bool         // decode steps are one CUDA graph, so that their launches take the host no time
	Element unit.Seconds // least time of each element-wise kernel that is not fused; 0 for the calibration's launch

	// Join is for a cache that grows by being put together anew: each decode step
	// reads all of it once more and writes it.
	Join bool

	// Repeat is for a cache of fixed length under a mask: each decode step copies
	// the keys and values of the whole of it once for every query head, and reads
	// the copies, at this share of the bandwidth. 0: the cache grows, and its heads
	// are shared.
	Repeat float64

	// Error is what it adds to the half-width of the interval, as a share of the time;
	// of a phase whose launches are the host's, for as much of it as they could fill.
	Error float64

	// Older is by how much longer than expected, as a share of the time, releases may
	// take that are older than the one that the constants are of: it adds to the upper
	// end of the interval alone.
	Older float64

	Reserve unit.Bytes // memory that it holds besides weights, cache and activations
}

// eagerLaunch is the median of the time per token over the launches of a step, of
// Llama-3.1-8B run eagerly at batch 1 to 32 (validate/observations/h200.csv).
const eagerLaunch = 10.7e-6

// smallKernel is what an element-wise kernel takes of a graph of many, and Repeat
// below is fitted with it: the least mean error of the time per token of
// Llama-3.1-8B in a graph, at batch 1 to 32 and prompts of 128 to 4096.
const smallKernel = 2.6e-6

// older is what releases can come to. The authors of vLLM have 0.6.0 of September
// 2024 at 1.8 (70B on four H100) to 2.7 (8B on one) times the throughput of 0.5.3, of
// whose time with 8B they found 62 % in its HTTP server and its scheduler
// (blog.vllm.ai/2024/09/05/perf-update.html); the smaller is taken. NVIDIA says that
// TensorRT-LLM's least latency of Llama 70B became 3.5 times better in less than a year
// ("What's the ROI? Getting the Most Out of LLM Inference", 2024).
const older = 0.8

// engines are the engines that can be predicted.
var engines = []Engine{
	{
		Name: "native", Fused: true, OneShot: true, Stream: true, Host: 20e-6, Reserve: 0,
		Carries: Carries{Rows: 16, Wide: 64, Quantized: 32, Rotation: true, Experts: true, Mixture: 64, Pairs: PairByPair, Layer: 1},
		Source:  "llmprof's own, one CUDA graph a step; attention of a decode step carries rotary embedding and cache write, its products up to batch 16 (dense models on one Hopper GPU: 64; quantized weights: 32) norms and activation (docs/native.md); 20 µs to read the token back assumed",
	},
	{
		Name: "transformers", Launch: eagerLaunch, Element: smallKernel, Join: true, Error: 0.25,
		Source: "Hugging Face transformers, eager: 13.9 ms a token for Llama-3.1-8B on an H200 and its host, about 1,300 launches; another host took 28 ms",
	},
	{
		Name: "transformers-graph", Launch: eagerLaunch, Graph: true, Element: smallKernel, Repeat: 0.37, Error: 0.10,
		Source: "Hugging Face transformers, a static cache and decoding through a CUDA graph: fitted to the time per token of Llama-3.1-8B on an H200",
	},
	{
		Name: "vllm", Fused: true, OneShot: true, Host: 2.1e-3, Reserve: 3.5e9,
		Source: "host time of 1.8 to 2.4 ms a step fitted to aiconfigurator's vLLM serving points (Apache-2.0); 3.5 GB from its system tables",
	},
	{
		Name: "tensorrt-llm", Fused: true, OneShot: true, Host: 0.6e-3, Reserve: 3.5e9,
		Source: "host time of 0.6 ms a step fitted to aiconfigurator's TensorRT-LLM serving points (Apache-2.0); 3.5 GB from its system tables",
	},
	{
		Name: "vllm-2024", Fused: true, OneShot: true, Host: 2.1e-3, Older: older, Reserve: 3.5e9,
		Source: "the constants of vllm, for releases up to mid-2024, which may take up to 1.8 times as long: what vLLM 0.6.0 gained over 0.5.3 by its authors' account",
	},
	{
		Name: "tensorrt-llm-2024", Fused: true, OneShot: true, Host: 0.6e-3, Older: older, Reserve: 3.5e9,
		Source: "the constants of tensorrt-llm, for releases up to mid-2024, which may take up to 1.8 times as long: taken as for vllm-2024",
	},
}

// EngineNames lists the engines that can be predicted.
func EngineNames() []string {
	names := make([]string, len(engines))
	for i, e := range engines {
		names[i] = e.Name
	}
	return names
}

// ParseEngine finds an engine by name, ignoring case.
func ParseEngine(name string) (Engine, error) {
	for _, e := range engines {
		if strings.EqualFold(e.Name, name) {
			return e, nil
		}
	}
	return Engine{}, fmt.Errorf("unknown engine %q (known: %s)", name, strings.Join(EngineNames(), ", "))
}
