package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"llmprof"
	"llmprof/hardware"
	"llmprof/measure"
	"llmprof/measure/experiment"
	"llmprof/measure/result"
	"llmprof/models"
	"llmprof/validate"
)

// A trial is a measurement as it was asked for on the command line.
type trial struct {
	point   experiment.Point
	eager   bool
	offline bool
	shared  bool
	node    int // this host, of several

	concurrencies []int     // each a run
	rates         []float64 // likewise

	results string // folder that the results are stored in
	records string // file of a server's requests
	output  output
	given   func(flag string) bool
}

// measure is the command that runs an engine.
func (a *app) measure() *cobra.Command {
	t := &trial{point: experiment.Default()}
	cmd := &cobra.Command{
		Use:   "measure --model MODEL",
		Short: "Run a real engine and measure time, memory and energy",
		Long: "Run an inference engine on this machine and measure the time to the first token (TTFT), per\n" +
			"token (TPOT) and to the last (TTLT), memory and energy. Every repeat is kept; the engine is warmed\n" +
			"up until its times hold still; energy is a counter's difference between two of its ticks.\n\n" +
			"All of it is measured unless some of --ttft, --tpot, --ttlt, --size and --energy are given. With\n" +
			"--ops the native engine's operators are timed one by one too, and set beside the estimate's.\n\n" +
			"The native engine needs an NVIDIA GPU with its driver, and NVRTC and cuBLASLt of CUDA 12 or 13; no\n" +
			"Python. Its weights are random unless --weights or the model's own folder has safetensors.",
		Example: "  llmprof measure --model llama3.1-8b --random-weights --batch 8\n" +
			"  llmprof measure --model ./my-model --eager --ttft --tpot\n" +
			"  llmprof measure --engine native --model llama3.1-8b --ops --trace traces\n" +
			"  llmprof measure --engine openai --base-url http://localhost:8000/v1 --model llama3.1-8b\n" +
			"  llmprof measure --engine openai --base-url http://localhost:8000 -m qwen3-8b --rate 1,2,4 -o l.svg",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t.given = cmd.Flags().Changed
			return a.runMeasure(cmd.Context(), t)
		},
	}
	t.subjectFlags(cmd)
	t.workloadFlags(cmd)
	t.placementFlags(cmd)
	t.clientFlags(cmd)
	t.output.flags(cmd)
	f := cmd.Flags()
	f.Lookup("output").Usage = chartUsage
	f.StringVar(&t.results, "results", "", "store the results in `FOLDER`, as \"llmprof run\" does")
	f.BoolVar(&t.output.binary, "binary", false, "memory in GiB (2^30) rather than GB (10^9)")
	f.SortFlags = false
	return cmd
}

// subjectFlags are about the model and the engine.
func (t *trial) subjectFlags(cmd *cobra.Command) {
	f, p := cmd.Flags(), &t.point
	f.StringVarP(&p.Model, "model", "m", "", "built-in `model`, hub id (org/name), directory or config.json")
	f.StringVar(&p.Engine, "engine", p.Engine, "`engine`: native, transformers, openai (default: native if it can)")
	f.Lookup("engine").DefValue = ""
	f.BoolVar(&p.RandomWeights, "random-weights", false, "take the shapes alone and download nothing; times are the same")
	f.StringVar(&p.WeightsDir, "weights", "", "`folder` of safetensors")
	f.StringVar(&p.DType, "dtype", p.DType, "`format` of the model: bf16, fp16 or fp32")
	f.StringVar(&p.Quantization, "quantize", "", "quantize the weights to `FORMAT`: int8, int4 or fp8")
	f.StringVar(&p.Attention, "attention", "", "`kernel`: sdpa, eager or flash_attention_2 (default: the engine's)")
	f.BoolVar(&p.Graph, "graph", p.Graph, "decode through a CUDA graph with a static cache")
	f.BoolVar(&t.eager, "eager", false, "decode without a graph, the cache growing")
	f.BoolVar(&p.Compile, "compile", false, "torch.compile the model")
	f.StringVar(&p.Device, "device", "", "`device`: cuda or cpu (default: a GPU where there is one)")
	f.StringVar(&p.Python, "python", "", "Python `interpreter` of the transformers engine (default: python3)")
	f.StringVar(&p.Libraries, "cuda-libs", "", "`folder` of the CUDA libraries that the native engine opens")
	f.BoolVar(&p.TrustRemoteCode, "trust-remote-code", false, "run Python code that the model's repository brings")
	f.BoolVar(&t.offline, "offline", false, "never use the network")
	_ = cmd.RegisterFlagCompletionFunc("model", completeModels)
	_ = cmd.RegisterFlagCompletionFunc("engine", words(experiment.Native, experiment.Transformers, experiment.OpenAI))
	_ = cmd.RegisterFlagCompletionFunc("dtype", words("bf16", "fp16", "fp32"))
	_ = cmd.RegisterFlagCompletionFunc("quantize", words("int8", "int4", "fp8"))
	_ = cmd.RegisterFlagCompletionFunc("attention", words("sdpa", "eager", "flash_attention_2"))
	_ = cmd.RegisterFlagCompletionFunc("device", words("cuda", "cpu"))
}

// workloadFlags are about what the engine is given and what is looked at.
func (t *trial) workloadFlags(cmd *cobra.Command) {
	f, p := cmd.Flags(), &t.point
	f.IntVarP(&p.Batch, "batch", "b", p.Batch, "`sequences` that run together")
	f.IntVar(&p.PromptLen, "prompt-len", p.PromptLen, "`tokens` of each prompt")
	f.IntVar(&p.GenLen, "gen-len", p.GenLen, "`tokens` generated for each prompt, the first included")
	f.StringVar(&p.Prompts, "prompts", p.Prompts, "\"random\", or a `FILE` of text lines or JSONL")
	f.Uint64Var(&p.Seed, "seed", p.Seed, "`seed` of weights and prompts (default for a server: a new one)")
	f.BoolVar(&p.TTFT, "ttft", false, "measure the time to the first token")
	f.BoolVar(&p.TPOT, "tpot", false, "measure the time per token after it")
	f.BoolVar(&p.TTLT, "ttlt", false, "measure the time to the last token")
	f.BoolVar(&p.Size, "size", false, "count parameters, caches and activations")
	f.BoolVar(&p.Energy, "energy", false, "measure energy; without a sensor this is an error")
	f.BoolVar(&p.Ops, "ops", false, "time the operators of a step one by one, beside the estimate's")
	f.IntVar(&p.Repeats, "repeats", 0, "least `samples` of each time (default 10)")
	f.IntVar(&p.Warmup, "warmup", 0, "`passes` before the first sample (default: until times are steady)")
	f.BoolVar(&p.Elana, "elana", false, "ELANA's protocol: frozen context, logits of all positions")
	f.BoolVar(&p.SaveOutputs, "save-outputs", false, "keep the generated tokens in the result")
	f.Float64Var(&p.CarbonIntensity, "carbon-intensity", 0, "`g/kWh` of CO2 that the power grid stands for")
	f.StringVar(&p.CarbonRegion, "carbon-region", "", "`region` whose CO2 a kWh is looked up, as germany or us")
	f.StringVar(&p.Trace, "trace", "", "write traces for Perfetto and CSV of kernels or operators to `FOLDER`")
}

// placementFlags are about where it runs.
func (t *trial) placementFlags(cmd *cobra.Command) {
	f, p := cmd.Flags(), &t.point
	f.StringSliceVar(&p.GPUs, "gpus", nil, "`UUIDs` or numbers of GPUs (default: the visible)")
	f.IntVar(&p.TP, "tp", p.TP, "tensor parallelism: `GPUs` that share every matrix")
	f.IntVar(&p.Replicas, "replicas", p.Replicas, "`processes` with a whole model each, side by side")
	f.IntVar(&p.Nodes, "nodes", p.Nodes, "`hosts` that the ranks are spread over")
	f.StringVar(&p.Rdzv, "rdzv", "", "`HOST:PORT` where the hosts meet")
	f.IntVar(&t.node, "node", 0, "`number` of this host, of several: 0 leads and reports")
	f.BoolVar(&t.shared, "shared", false, "measure although others use the GPUs")
}

// clientFlags are about asking a server.
func (t *trial) clientFlags(cmd *cobra.Command) {
	f, p := cmd.Flags(), &t.point
	f.StringVar(&p.BaseURL, "base-url", "", "`URL` of an OpenAI-compatible server, as http://localhost:8000/v1")
	f.StringVar(&p.API, "api", p.API, "`endpoint` of the server: chat or completions")
	f.IntSliceVar(&t.concurrencies, "concurrency", nil, "`requests` at a time; of several, as 1,8,64, each is measured")
	f.Var(ratesFlag{&t.rates}, "rate", "`requests` a second, arriving at random (Poisson), or several")
	f.IntVar(&p.Requests, "requests", 0, "`requests` in all")
	f.Var(failuresFlag{&p.MaxFailures}, "max-failures", "`share` of requests that may fail in a run that counts (default 1%)")
	f.Float64Var((*float64)(&p.Timeout), "timeout", 0, "`seconds` of silence after which a request has failed (default 120)")
	f.StringVar(&p.Connections, "connections", "", "`use` of connections: pooled, new or worker (default: pooled)")
	f.StringVar(&p.SLO, "slo", "", "`limits` that goodput counts within, as ttft=500ms,tpot=50ms,ttlt=10s")
	f.StringVar(&t.records, "records", "", "write each request to `FILE` as it ends, a JSON object a line")
	f.StringVar(&p.ServedModel, "served-model", "", "the server's `name` of the model (default: that of --model)")
	f.StringVar(&p.ServedWeights, "served-weights", "", "`format` of the server's weights (default: what it says)")
	f.StringVar(&p.ServedKV, "served-kv", "", "`format` of the server's KV cache (default: what it says)")
	f.IntVar(&p.ServedTP, "served-tp", 0, "`GPUs` that the server splits a matrix over (default: what it says)")
	f.StringVar(&p.EngineCmd, "engine-cmd", "", "`command` of a server to start and stop around the run")
	_ = cmd.RegisterFlagCompletionFunc("api", words("chat", "completions"))
	_ = cmd.RegisterFlagCompletionFunc("connections", words("pooled", "new", "worker"))
}

// settle turns what was given on the command line into a point.
func (t *trial) settle() error {
	p := &t.point
	if (t.given("cuda-libs") || p.Ops) && !t.given("engine") {
		p.Engine = experiment.Native
	}
	if t.eager {
		if t.given("graph") && p.Graph {
			return usage("--eager: it contradicts --graph")
		}
		p.Graph = false
	}
	if !p.TTFT && !p.TPOT && !p.TTLT && !p.Size && !p.Energy {
		p.TTFT, p.TPOT, p.TTLT, p.Size, p.Energy = true, p.GenLen > 1, true, true, true
	}
	if t.node < 0 || t.node >= max(p.Nodes, 1) {
		return usage("--node %d: %d hosts count from 0", t.node, max(p.Nodes, 1))
	}
	if t.records != "" && p.Engine != experiment.OpenAI {
		return usage("--records %s: only a server's requests are recorded one by one: it is for --engine %s", t.records, experiment.OpenAI)
	}
	if t.output.picture() != "" && p.Engine != experiment.OpenAI {
		return usage("-o %s: the chart is of the loads of a server, with --engine openai", t.output.file)
	}
	if len(t.concurrencies) > 0 {
		p.Concurrency = t.concurrencies[0]
	}
	if len(t.rates) > 0 {
		p.RequestRate = t.rates[0]
	}
	if err := p.Check(); err != nil {
		return usageError{err}
	}
	return nil
}

func (a *app) runMeasure(ctx context.Context, t *trial) (err error) {
	if err := errors.Join(t.output.check(), t.settle()); err != nil {
		return usageError{err}
	}
	p := &t.point
	lab, err := a.lab(t.offline)
	if err != nil {
		return err
	}
	lab.Shared, lab.NeedEnergy, lab.Node = t.shared, t.given("energy"), t.node
	if !t.given("engine") && p.Engine != experiment.Native {
		p.Engine = lab.Engine(ctx, *p)
	}
	if t.node > 0 {
		return lab.Join(ctx, *p)
	}
	points, err := t.loads() // once the engine is chosen
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	if t.records != "" {
		file, err := os.Create(t.records)
		if err != nil {
			return fmt.Errorf("writing %s: %w", t.records, reason(err))
		}
		defer file.Close() // a line that cannot be written is an error of the measurement
		lab.Records = file
	}
	var store *experiment.Store
	if t.results != "" {
		store = &experiment.Store{Dir: t.results}
	}
	results, failed := experiment.Several(ctx, points, lab.Measure, store, a.sayLoads(points))
	if len(results) == 0 {
		return failed
	}
	return errors.Join(failed, a.writeMeasured(&t.output, results, len(points) > 1))
}

// writeMeasured writes results as their files have them: those of several loads as a
// list.
func (a *app) writeMeasured(o *output, results []*result.Result, list bool) error {
	whole := make([]*result.Result, len(results))
	for i, r := range results {
		var err error
		if whole[i], err = result.Complete(r); err != nil {
			return err
		}
	}
	if list {
		return a.writeListed(o, loadSet(whole), whole)
	}
	scorer, err := a.scorer("", nil)
	if err != nil {
		return err
	}
	return a.writeListed(o, measured(whole, scorer), whole)
}

// measured is what was measured in its forms: as JSON one process's result is
// itself, those of replicas are a list.
func measured(results []*result.Result, s *validate.Scorer) forms {
	forms := rawForms(results, s)
	if len(results) == 1 {
		forms.data = func() any { return results[0] }
	}
	return forms
}

// measurer prepares for the points of an experiment.
func (a *app) measurer(offline bool) (experiment.Measure, func() error, error) {
	lab, err := a.lab(offline)
	if err != nil {
		return nil, nil, err
	}
	return lab.Measure, lab.Close, nil
}

// lab is where measurements are made.
func (a *app) lab(offline bool) (*measure.Lab, error) {
	table, err := models.Load(llmprof.ModelsJSON)
	if err != nil {
		return nil, err
	}
	gpus, err := hardware.Load(llmprof.HardwareTOML)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("this program's own file, which is the native engine's too: %w", err)
	}
	hub := models.HubFromEnv(a.env)
	hub.Offline = hub.Offline || offline
	f := a.follow()
	return &measure.Lab{
		Models: models.Resolver{Table: table, Hub: hub}, GPUs: gpus, Root: os.DirFS("/"), Env: a.env,
		Version: versionText(), Command: os.Args, NativeCommand: []string{self, nativeWorker}, Say: f.say, Progress: f.progress,
	}, nil
}
