package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"llmprof/internal/input"
	"llmprof/measure/native"
	"llmprof/measure/worker"
	"llmprof/models"
)

// Check returns why the engine cannot run a load, as far as that is known without a GPU:
// unsupported settings, formats or models, and a missing checkpoint.
func Check(l *worker.Load) error {
	_, err := options(l)
	return err
}

// Tried reports whether what a load asks for is of a kind that has run on a GPU.
func Tried(l *worker.Load) bool {
	o, err := options(l)
	return err == nil && native.Tried(&o)
}

func refused(l *worker.Load) error {
	for _, s := range []struct {
		asked bool
		text  string
	}{
		{l.DType != "bf16" && l.DType != "fp16", fmt.Sprintf("computes in bf16 or fp16, not in %q", l.DType)},
		{l.Attention != "", fmt.Sprintf("has one kernel for attention, not %q", l.Attention)},
		{l.Device == "cpu", "needs a GPU, not the CPU"},
		{l.Compile, "compiles its kernels itself, not with torch.compile"},
		{l.TrustRemoteCode, "runs no Python of a repository"},
		{l.AllLogits, "has logits of the prompts' last positions alone"},
		{l.FrozenContext, "decodes with a growing context alone"},
		{len(l.Texts) > 0, "has no tokenizer for prompts as text: give token ids, as {\"prompt_token_ids\": [1, 2]} in a JSONL file"},
	} {
		if s.asked {
			return &worker.Failure{Kind: worker.Unsupported, Message: "the native engine " + s.text + "; the transformers engine may do it"}
		}
	}
	return nil
}

// options turns a load into the options of the engine. Where prompts are given, the length
// of the prompts is set later.
func options(l *worker.Load) (native.Options, error) {
	if err := refused(l); err != nil {
		return native.Options{}, err
	}
	o := native.Options{
		Config: l.Config, Weights: l.Weights, Seed: l.Seed,
		Workload: l.Workload, Eager: !l.Graph, Libraries: l.Libraries, TP: l.TP,
	}
	o.FP16 = l.DType == "fp16"
	var err error
	if o.Quantization, err = native.ParseQuantization(l.Quantization); err != nil {
		return o, err
	}
	if len(o.Config) == 0 {
		return o, worker.Invalidf("the native engine was given no config.json of %s", l.Model)
	}
	if l.RandomWeights == (l.Weights != "") {
		return o, worker.Invalidf("the native engine needs random weights or a folder of safetensors, one of them")
	}
	if l.Weights != "" {
		if err := readConfig(&o, l); err != nil {
			return o, err
		}
	}
	if o.Model, err = models.Read(l.Model, o.Config); err != nil {
		return o, worker.Invalidf("%v", err)
	}
	o.Spread = o.Weights == "" && o.Model.HasExperts()
	if max(l.PromptLen, len(l.Prompts)) == 0 {
		return o, worker.Invalidf("a random prompt needs a length of 1 or more")
	}
	if o.PromptLen == 0 {
		o.PromptLen = len(l.Prompts[0])
	}
	return o, native.Check(&o)
}

// mostConfig is the largest config.json that is read.
const mostConfig = 8 << 20

// readConfig reads the config.json beside real weights, for the numbers that
// are not sizes: the table of models leaves these out.
func readConfig(o *native.Options, l *worker.Load) error {
	config, err := input.Read(filepath.Join(l.Weights, "config.json"), mostConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return &worker.Failure{Kind: worker.NotFound, Message: fmt.Sprintf(
			"the weights in %s need the config.json that belongs to them beside them: %v", l.Weights, err)}
	}
	if err != nil {
		return worker.Invalidf("%v", err)
	}
	if bytes.Equal(config, l.Config) {
		return nil
	}
	asked, err := models.Read(l.Model, l.Config)
	if err != nil {
		return worker.Invalidf("%v", err)
	}
	there, err := models.Read(l.Weights, config)
	if err != nil {
		return worker.Invalidf("%v", err)
	}
	if a, b := asked.Params(), there.Params(); a != b || asked.Family != there.Family {
		return worker.Invalidf("%s is a %s of %d parameters, the weights in %s are of a %s of %d", l.Model, asked.Family, a, l.Weights,
			there.Family, b)
	}
	o.Config = config
	return nil
}
