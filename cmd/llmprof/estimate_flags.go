package main

import (
	"github.com/spf13/cobra"

	"llmprof/analytic/engine"
	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/models"
)

// flags are those of all commands that make an estimate.
func (q *question) flags(cmd *cobra.Command) {
	cli.Define(cmd, cli.Model, q.modelFlags)
	cli.Define(cmd, cli.Hardware, q.hardwareFlags)
	cli.Define(cmd, cli.Workload, q.workloadFlags)
	cli.Define(cmd, cli.Engine, q.engineFlags)
	cli.Rare(cmd, "memory-utilization", "act", "sp", "micro-batches", "gpus-per-node", "hardware", "all-logits", "max-num-batched-tokens",
		"compute-eff", "memory-eff", "link-eff", "inter-node-eff", "offline", "lenient")
}

// modelFlags are about the model and its formats.
func (q *question) modelFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&q.model, "model", "m", "", "built-in `model`, hub id, directory, config.json, .gguf")
	f.StringVar(&q.weights, "weights", "", "`format`, as fp8, awq or q4_k_m (default: the checkpoint's)")
	f.Var(formatFlag{&q.act}, "act", "`format` of the activations (default: the scheme's)")
	f.Var(formatFlag{&q.kv}, "kv", "`format` of the KV cache (default: 16 bits)")
	f.BoolVar(&q.offline, "offline", false, "never use the network")
	f.BoolVar(&q.lenient, "lenient", false, "note what of a config.json is not understood, instead of refusing it")
	_ = cmd.RegisterFlagCompletionFunc("model", completeModels)
	_ = cmd.RegisterFlagCompletionFunc("weights", words(append(models.SchemeNames(), models.Mixes()...)...))
	_ = cmd.RegisterFlagCompletionFunc("act", words(formatNames()...))
	_ = cmd.RegisterFlagCompletionFunc("kv", words(formatNames()...))
}

// hardwareFlags are about the GPUs, and how the model is spread over them.
func (q *question) hardwareFlags(cmd *cobra.Command) {
	f, p := cmd.Flags(), &q.parallel
	f.StringVarP(&q.gpu, "gpu", "g", "", "`GPU`: a name from \"llmprof gpus list\", or its driver's")
	f.IntVar(&p.TP, "tp", 1, "tensor parallelism: `GPUs` that share every matrix")
	f.IntVar(&p.PP, "pp", 1, "pipeline parallelism: `stages` that share the layers")
	f.IntVar(&p.EP, "ep", 1, "expert parallelism: `GPUs` that share the experts")
	f.IntVar(&p.DP, "dp", 1, "data parallelism: `replicas` of the model")
	f.BoolVar(&p.SP, "sp", false, "sequence parallelism: each TP rank has its share of the norms")
	f.IntVar(&p.MicroBatches, "micro-batches", 1, "`parts` in which the batch goes through the pipeline")
	f.IntVar(&p.GPUsPerNode, "gpus-per-node", 0, "`GPUs` of a node (default: the usual node of the GPU)")
	f.Var(shareFlag{&q.utilization}, "memory-utilization", "`share` of the GPU's memory that the engine takes")
	f.Var(&q.price, "price", "`dollars` an hour for one GPU (default: the GPU table's)")
	f.StringVar(&q.hardware, "hardware", "", "TOML `FILE` of GPUs that overlays the built-in table")
	_ = cmd.RegisterFlagCompletionFunc("gpu", completeGPUs)
}

// workloadFlags are about what the model is asked to do.
func (q *question) workloadFlags(cmd *cobra.Command) {
	f, w := cmd.Flags(), &q.workload
	f.IntVarP(&w.Batch, "batch", "b", 1, "`sequences` together, in each replica (default 1)")
	f.IntVar(&w.Prompt, "prompt-len", 1024, "`tokens` of each prompt")
	f.IntVar(&w.Gen, "gen-len", 128, "`tokens` generated, the first included")
	f.IntVar(&w.Budget, "max-num-batched-tokens", 0, "most `tokens` of a prefill step, all sequences together")
	f.IntVar(&w.Chunk, "chunk", 0, "prefill in steps of at most this many `tokens`")
	f.IntVar(&w.CachedPrefix, "cached-prefix", 0, "leading `tokens` of it that the KV cache has")
	f.BoolVar(&w.AllLogits, "all-logits", false, "run the LM head on every position of the prompt, not only the last")
}

// engineFlags are about the engine, and what it and the GPUs reach.
func (q *question) engineFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&q.engine, "engine", "", "`engine` (default: vllm where it runs the model)")
	calibrationFlag(cmd, &q.calibration)
	f.Var(shareFlag{&q.eff.compute}, "compute-eff", "`share` of the peak FLOP/s that is reached (default: calibrated)")
	f.Var(shareFlag{&q.eff.memory}, "memory-eff", "`share` of the memory bandwidth (default: calibrated)")
	f.Var(shareFlag{&q.eff.link}, "link-eff", "`share` of the link between GPUs (default: calibrated)")
	f.Var(shareFlag{&q.eff.interNode}, "inter-node-eff", "`share` of the network between nodes (default: calibrated)")
	_ = cmd.RegisterFlagCompletionFunc("engine", words(engine.Names()...))
}
