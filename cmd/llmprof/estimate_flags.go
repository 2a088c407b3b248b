package main

import (
	"github.com/spf13/cobra"

	"llmprof/analytic/engine"
	"llmprof/cmd/llmprof/internal/ask"
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
		"compute-eff", "memory-eff", "link-eff", "no-p2p", "inter-node-eff", "offline", "lenient")
}

// modelFlags are about the model and its formats.
func (q *question) modelFlags(cmd *cobra.Command) {
	q.ModelFlags(cmd.Flags())
	_ = cmd.RegisterFlagCompletionFunc("model", completeModels)
	_ = cmd.RegisterFlagCompletionFunc("weights", words(append(models.SchemeNames(), models.Mixes()...)...))
	_ = cmd.RegisterFlagCompletionFunc("act", words(ask.FormatNames()...))
	_ = cmd.RegisterFlagCompletionFunc("kv", words(ask.FormatNames()...))
}

// hardwareFlags are about the GPUs, and how the model is spread over them.
func (q *question) hardwareFlags(cmd *cobra.Command) {
	q.HardwareFlags(cmd.Flags())
	_ = cmd.RegisterFlagCompletionFunc("gpu", completeGPUs)
}

// workloadFlags are about what the model is asked to do.
func (q *question) workloadFlags(cmd *cobra.Command) {
	q.WorkloadFlags(cmd.Flags())
}

// engineFlags are about the engine, and what it and the GPUs reach.
func (q *question) engineFlags(cmd *cobra.Command) {
	q.EngineFlags(cmd.Flags())
	_ = cmd.RegisterFlagCompletionFunc("engine", words(engine.Names()...))
}

// skewFlag adds the flag that says how unevenly experts are chosen.
func (q *question) skewFlag(cmd *cobra.Command) { q.SkewFlag(cmd.Flags()) }
