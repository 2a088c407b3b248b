package main

import (
	"context"

	"github.com/spf13/cobra"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/models"
	"llmprof/unit"
)

// A question is an estimate as it was asked for on the command line.
type question struct {
	model, gpu, engine, weights string
	act, kv                     unit.Format
	workload                    analytic.Workload
	parallel                    analytic.Parallelism
	eff                         efficiencies
	utilization                 float64
	price                       price
	hardware, calibration       string
	offline                     bool

	top     int
	verbose bool
	output  output
	given   func(flag string) bool
}

// estimate is the command that predicts.
func (a *app) estimate() *cobra.Command {
	q := &question{}
	cmd := &cobra.Command{
		Use:   "estimate --model MODEL --gpu GPU",
		Short: "Predict time, memory, energy and cost",
		Long: "Predict what it takes to serve a model on a GPU: time to the first token (TTFT), per token\n" +
			"(TPOT) and to the last (TTLT), memory, energy and money, operator by operator.\n\n" +
			"Each time has a floor, which nothing beats (data-sheet peaks, perfect overlap), and an\n" +
			"expected value with a 90 % interval (what kernels reach in practice).",
		Example: "  llmprof estimate --model llama2-70b --gpu a100 --tp 8 --batch 32\n" +
			"  llmprof estimate --model deepseek-v3 --gpu h200 --tp 8 --kv fp8 --format json\n" +
			"  llmprof estimate --model ./config.json --gpu rtx-4090 --weights w4a16-g128",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q.given = cmd.Flags().Changed
			return a.runEstimate(cmd.Context(), q)
		},
	}
	q.modelFlags(cmd)
	q.splitFlags(cmd)
	q.machineFlags(cmd)
	q.output.flags(cmd)
	f := cmd.Flags()
	f.BoolVar(&q.output.binary, "binary", false, "memory in GiB (2^30) rather than GB (10^9)")
	f.IntVar(&q.top, "top", 0, "show the `N` longest operators of each phase; 0 for all")
	f.BoolVarP(&q.verbose, "verbose", "v", false, "say on standard error what the estimate is computed from")
	f.SortFlags = false
	return cmd
}

// modelFlags are about the model and what it is asked to do.
func (q *question) modelFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	q.nameFlags(cmd)
	f.IntVarP(&q.workload.Batch, "batch", "b", 1, "`sequences` that run together, in each replica")
	f.IntVar(&q.workload.Prompt, "prompt-len", 1024, "`tokens` of each prompt")
	f.IntVar(&q.workload.Gen, "gen-len", 128, "`tokens` generated for each prompt, the first included")
	f.IntVar(&q.workload.Chunk, "chunk", 0, "prefill in steps of at most this many `tokens`; 0 for one step")
	f.IntVar(&q.workload.Budget, "max-num-batched-tokens", 0, "most tokens `n` of a prefill step, all sequences (default: the engine's)")
	f.IntVar(&q.workload.CachedPrefix, "cached-prefix", 0, "leading `tokens` of the prompt that the KV cache has already")
	f.BoolVar(&q.workload.AllLogits, "all-logits", false, "run the LM head on every position of the prompt, not only the last")
	q.formatFlags(cmd)
}

// nameFlags name the model and the GPU.
func (q *question) nameFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&q.model, "model", "m", "", "built-in `model`, hub id (org/name), directory or config.json")
	f.StringVarP(&q.gpu, "gpu", "g", "", "`GPU`: a name from \"llmprof gpus list\"")
	_ = cmd.RegisterFlagCompletionFunc("model", completeModels)
	_ = cmd.RegisterFlagCompletionFunc("gpu", completeGPUs)
}

// formatFlags are the number formats of weights, activations and cache.
func (q *question) formatFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&q.weights, "weights", "", "`format` or scheme, as fp8 or w4a16-g128 (default: the checkpoint's)")
	f.Var(formatFlag{&q.act}, "act", "`format` of the activations (default: the scheme's)")
	f.Var(formatFlag{&q.kv}, "kv", "`format` of the KV cache (default: 16 bits)")
	_ = cmd.RegisterFlagCompletionFunc("weights", words(models.SchemeNames()...))
	_ = cmd.RegisterFlagCompletionFunc("act", words(formatNames()...))
	_ = cmd.RegisterFlagCompletionFunc("kv", words(formatNames()...))
}

// splitFlags are about how the model is spread over GPUs.
func (q *question) splitFlags(cmd *cobra.Command) {
	f, p := cmd.Flags(), &q.parallel
	f.IntVar(&p.TP, "tp", 1, "tensor parallelism: `GPUs` that share every matrix")
	f.IntVar(&p.PP, "pp", 1, "pipeline parallelism: `stages` that share the layers")
	f.IntVar(&p.EP, "ep", 1, "expert parallelism: `GPUs` that share the experts")
	f.IntVar(&p.DP, "dp", 1, "data parallelism: `replicas` of the model")
	f.BoolVar(&p.SP, "sp", false, "sequence parallelism: each TP rank has its share of the norms")
	f.IntVar(&p.MicroBatches, "micro-batches", 1, "`parts` in which the batch goes through the pipeline")
	f.IntVar(&p.GPUsPerNode, "gpus-per-node", 0, "`GPUs` of a node (default: the usual node of the GPU)")
}

// machineFlags are about what the GPUs and the engine reach.
func (q *question) machineFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&q.engine, "engine", "", "inference `engine` (default: vllm where it runs the model)")
	f.Var(shareFlag{&q.eff.compute}, "compute-eff", "`share` of the peak FLOP/s that is reached (default: calibrated)")
	f.Var(shareFlag{&q.eff.memory}, "memory-eff", "`share` of the memory bandwidth (default: calibrated)")
	f.Var(shareFlag{&q.eff.link}, "link-eff", "`share` of the link between GPUs (default: calibrated)")
	f.Var(shareFlag{&q.eff.interNode}, "inter-node-eff", "`share` of the network between nodes (default: calibrated)")
	f.Var(shareFlag{&q.utilization}, "memory-utilization", "`share` of the GPU's memory that the engine takes (default: the engine's)")
	f.Var(&q.price, "price", "`dollars` an hour for one GPU (default: the GPU table's)")
	f.StringVar(&q.hardware, "hardware", "", "TOML `FILE` of GPUs that overlays the built-in table")
	calibrationFlag(cmd, &q.calibration)
	f.BoolVar(&q.offline, "offline", false, "never use the network")
	_ = cmd.RegisterFlagCompletionFunc("engine", words(engine.Names()...))
}

func (a *app) runEstimate(ctx context.Context, q *question) error {
	if err := q.check(); err != nil {
		return err
	}
	ans, err := a.answer(ctx, q)
	if err != nil {
		return err
	}
	if q.verbose {
		for _, line := range ans.Inputs() {
			a.logf("%s", line)
		}
	}
	return q.output.write(a, forms{page: ans.Page, table: ans.Table, data: func() any { return ans.Document() }})
}
