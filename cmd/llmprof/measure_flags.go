package main

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/measure/experiment"
)

// namedModel is the flag of measurements that the page asks for, which are of no file.
const namedModel = "named-model"

// flagOf is the flag that sets a key of experiment files; "" for a key that has none.
func flagOf(key string) string {
	if flag, ok := map[string]string{
		"weights_dir": "weights", "quantization": "quantize", "libraries": "cuda-libs", "window_s": "", "idle_s": "",
		"carbon_intensity_g_kwh": "carbon-intensity", "request_rate_hz": "rate", "load": "trace", "load_speed": "speed",
		"load_unit": "trace-unit", "load_block": "trace-block",
		"prompt_lengths": "prompt-len", "gen_lengths": "gen-len", "timeout_s": "timeout",
	}[key]; ok {
		return flag
	}
	return strings.ReplaceAll(key, "_", "-")
}

// compound matches words that can be keys and are no words of a sentence.
var compound = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b[a-z]+(_[a-z]+)+\b`) })

// engineSetting matches the engine as files set it.
var engineSetting = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`engine = "(\w+)"`) })

// inFlags is an error about the settings of a point that names the flags which set them.
func inFlags(err error) error {
	problems := experiment.Problems{}
	if !errors.As(err, &problems) {
		return err
	}
	lines := make([]string, len(problems))
	for i, p := range problems {
		if flag := flagOf(p.Key); flag != "" {
			p.Key = "--" + flag
		}
		text := engineSetting().ReplaceAllString(p.Text, "--engine $1")
		lines[i] = p.Key + ": " + compound().ReplaceAllStringFunc(text, func(word string) string {
			if flag := flagOf(word); flag != "" && slices.Contains(experiment.Settings(), word) {
				return "--" + flag
			}
			return word
		})
	}
	return errors.New(strings.Join(lines, "\n"))
}

// flags are those of a measurement, the engine first: the others depend on it.
func (t *trial) flags(cmd *cobra.Command) {
	cli.Define(cmd, "Engine and model", t.engineFlags)
	cli.Define(cmd, cli.Workload, t.workloadFlags)
	cli.Define(cmd, "What is measured", t.figureFlags)
	cli.Define(cmd, "Where it runs", t.placementFlags)
	cli.Define(cmd, "Server (--engine openai)", t.serverFlags)
	cli.Define(cmd, "What the server runs", t.servedFlags)
	cli.Define(cmd, cli.Output, func(*pflag.FlagSet) { t.outputFlags(cmd) })
	cli.Rare(cmd, "attention", "graph", "compile", "device", "python", "cuda-libs", "trust-remote-code", "offline",
		"prompts", "seed", "elana", "save-outputs", "carbon-intensity", "carbon-region", "warmup",
		"replicas", "nodes", "rdzv", "node", "shared", "api", "temperature", "max-failures", "timeout", "connections", "records", "speed",
		"trace-unit", "trace-block",
		"served-model", "served-weights", "served-kv", "served-tp", "binary", "color")
}

// engineFlags are about the engine and the model that it runs.
func (t *trial) engineFlags(f *pflag.FlagSet) {
	p := &t.point
	settings.Choice(f, &p.Engine, "engine", p.Engine, "`engine`: %s", experiment.Native, experiment.Transformers, experiment.OpenAI)
	f.Lookup("engine").DefValue = ""
	f.StringVarP(&p.Model, "model", "m", "", "built-in `model`, hub id, directory or config.json")
	f.BoolVar(&p.RandomWeights, "random-weights", false, "download nothing; times are the same")
	f.StringVar(&p.WeightsDir, "weights", "", "`folder` of safetensors")
	settings.Choice(f, &p.DType, "dtype", p.DType, "`format` of the model: %s", "bf16", "fp16", "fp32")
	settings.Choice(f, &p.Quantization, "quantize", "", "quantize the weights to `FORMAT`: %s", "int8", "int4", "fp8")
	f.BoolVar(&t.eager, "eager", false, "decode without a graph, the cache growing")
	settings.Choice(f, &p.Attention, "attention", "", "`kernel`: %s (default: the engine's)", "sdpa", "eager", "flash_attention_2")
	f.BoolVar(&p.Graph, "graph", p.Graph, "decode through a CUDA graph with a static cache")
	f.BoolVar(&p.Compile, "compile", false, "torch.compile the model")
	settings.Choice(f, &p.Device, "device", "", "`device`: %s (default: a GPU where there is one)", "cuda", "cpu")
	f.StringVar(&p.Python, "python", "", "Python `interpreter` of the transformers engine (default: python3)")
	f.StringVar(&p.Libraries, "cuda-libs", "", "`folder` of the CUDA libraries that the native engine opens")
	f.BoolVar(&p.TrustRemoteCode, "trust-remote-code", false, "run Python code that the model's repository brings")
	f.BoolVar(&t.offline, "offline", false, "never use the network")
	f.BoolVar(&t.named, namedModel, false, "take the model for a built-in one or a hub id, whatever files there are")
	_ = f.MarkHidden(namedModel)
}

func (t *trial) workloadFlags(f *pflag.FlagSet) {
	p := &t.point
	f.IntVarP(&p.Batch, "batch", "b", p.Batch, "`sequences` that run together")
	f.Var(lensFlag(&p.PromptLen, &p.PromptLens), "prompt-len", "`tokens` of each prompt; of a server's also 64..512")
	f.Var(lensFlag(&p.GenLen, &p.GenLens), "gen-len", "all `tokens` of an answer; likewise")
	f.StringVar(&p.Prompts, "prompts", p.Prompts, "\"random\", or a `FILE` of text lines or JSONL")
	f.Uint64Var(&p.Seed, "seed", p.Seed, "`seed` of weights and prompts (default for a server: a new one)")
}

// figureFlags are about what is looked at, and how often.
func (t *trial) figureFlags(f *pflag.FlagSet) {
	p := &t.point
	f.BoolVar(&p.TTFT, "ttft", false, "measure the time to the first token")
	f.BoolVar(&p.TPOT, "tpot", false, "measure the time per token after it")
	f.BoolVar(&p.TTLT, "ttlt", false, "measure the time to the last token")
	f.BoolVar(&p.Size, "size", false, "count parameters, caches and activations")
	f.BoolVar(&p.Energy, "energy", false, "measure energy; without a sensor this is an error")
	f.BoolVar(&p.Ops, "ops", false, "time operators one by one, beside the estimate's")
	f.StringVar(&p.Trace, "trace", "", "write traces to `FOLDER`; of a server, a load to replay")
	f.Float64Var(&p.Speed, "speed", 0, "`times` as fast as the requests of --trace were recorded")
	f.StringVar(&p.LoadUnit, "trace-unit", "", "`unit` of the load's times: s, ms, us or ns (default: what the file says)")
	settings.Words(f, "trace-unit", "s", "ms", "us", "ns")
	f.IntVar(&p.LoadBlock, "trace-block", 0, "`tokens` that a hash of the load is of (default: what the file says)")
	f.IntVar(&p.Repeats, "repeats", 0, "least `samples` of each time (default 10)")
	f.IntVar(&p.Warmup, "warmup", 0, "`passes` before the first sample (default: until times are steady)")
	f.BoolVar(&p.Elana, "elana", false, "ELANA's protocol: frozen context, logits of all positions")
	f.BoolVar(&p.SaveOutputs, "save-outputs", false, "keep the generated tokens in the result")
	f.Float64Var(&p.CarbonIntensity, "carbon-intensity", 0, "carbon intensity of the power grid in `g/kWh` of CO2")
	f.StringVar(&p.CarbonRegion, "carbon-region", "", "`region` of the power grid, such as germany or us, for its carbon intensity")
}

func (t *trial) placementFlags(f *pflag.FlagSet) {
	p := &t.point
	f.StringSliceVar(&p.GPUs, "gpus", nil, "`UUIDs` or numbers of GPUs (default: the visible)")
	f.IntVar(&p.TP, "tp", p.TP, "tensor parallelism: `GPUs` that share every matrix")
	f.IntVar(&p.Replicas, "replicas", p.Replicas, "`processes` with a whole model each, side by side")
	f.IntVar(&p.Nodes, "nodes", p.Nodes, "`hosts` that the ranks are spread over")
	f.StringVar(&p.Rdzv, "rdzv", "", "`HOST:PORT` where the hosts meet")
	f.IntVar(&t.node, "node", 0, "`number` of this host, of several: 0 leads and reports")
	f.BoolVar(&t.shared, "shared", false, "measure although others use the GPUs")
}

func (t *trial) serverFlags(f *pflag.FlagSet) {
	p := &t.point
	f.StringVar(&p.BaseURL, "base-url", "", "its `URL`, as http://localhost:8000/v1")
	f.StringVar(&p.EngineCmd, "engine-cmd", "", "`command` that starts it, for the run alone")
	f.IntSliceVar(&t.concurrencies, "concurrency", nil, "`requests` at a time, or several, as 1,8,64")
	f.Var(settings.RatesFlag(&t.rates, &t.span), "rate", "`requests` a second, at random; 1..32 finds the knee")
	f.IntVar(&p.Requests, "requests", 0, "`requests` in all")
	f.Float64Var(&p.Temperature, "temperature", 0, "`temperature` of choosing tokens, up to 2; --seed repeats it")
	f.StringVar(&p.SLO, "slo", "", "`limits` of goodput, as ttft=500ms,tpot=50ms")
	settings.Choice(f, &p.API, "api", p.API, "`endpoint` of the server: %s", "chat", "completions")
	f.Var(failuresFlag(&p.MaxFailures), "max-failures", "`share` of requests that may fail in a run that counts (default 1%)")
	f.Var(settings.TimeFlag(&p.Timeout), "timeout", "`time` of silence after which a request has failed, as 30 or 5m (default 120 seconds)")
	settings.Choice(f, &p.Connections, "connections", "", "`use` of connections: %s (default: pooled)", "pooled", "new", "worker")
	f.StringVar(&t.records, "records", "", "write each request to `FILE` as it ends, a JSON object a line")
}

// servedFlags are about what a server runs, for the estimate beside it.
func (t *trial) servedFlags(f *pflag.FlagSet) {
	p := &t.point
	f.StringVar(&p.ServedModel, "served-model", "", "the server's `name` of the model (default: that of --model)")
	f.StringVar(&p.ServedWeights, "served-weights", "", "`format` of the server's weights (default: what it says)")
	f.StringVar(&p.ServedKV, "served-kv", "", "`format` of the server's KV cache (default: what it says)")
	f.IntVar(&p.ServedTP, "served-tp", 0, "`GPUs` that the server splits a matrix over (default: what it says)")
}

func (t *trial) outputFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	t.output.chart, t.output.report = true, true
	t.output.flags(cmd)
	f.StringVar(&t.results, "results", "", "store the results in `FOLDER`, as \"llmprof run\" does")
	f.BoolVar(&t.output.binary, "binary", false, "memory in GiB (2^30) rather than GB (10^9)")
}
