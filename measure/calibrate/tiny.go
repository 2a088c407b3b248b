package calibrate

import (
	"context"
	"fmt"

	"llmprof/analytic"
	engines "llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/measure/worker"
	"llmprof/models"
)

// tinyConfig is a model whose kernels take less than the host takes to launch
// them, so that the time of its steps is the host's.
const tinyConfig = `{"model_type":"llama","architectures":["LlamaForCausalLM"],"hidden_size":256,"intermediate_size":512,` +
	`"num_hidden_layers":16,
	"num_attention_heads":4,"num_key_value_heads":2,"head_dim":64,"vocab_size":1024,"max_position_embeddings":4096,"hidden_act":"silu",
	"rms_norm_eps":1e-5,"rope_theta":10000.0,"tie_word_embeddings":false,"attention_bias":false,"mlp_bias":false}`

// The workload of a tiny step.
const (
	tinyPrompt = 32
	tinyGen    = 33
	tinyPasses = 4 // The first of the passes is a warm-up.
)

// tinyLaunches counts the kernels of an eager decode step, as the theory does.
func tinyLaunches(batch int) int {
	m, err := models.Read("tiny", []byte(tinyConfig))
	if err != nil {
		return 0 // a test holds that it is read
	}
	plain, err := models.ParseScheme("bf16")
	if err != nil {
		return 0
	}
	eager, err := engines.Parse("transformers")
	if err != nil {
		return 0
	}
	rank := operator.NewRank(m, analytic.Parallelism{}, plain, nil)
	step := rank.Step(float64(batch), 1, tinyPrompt, 1)
	l := analytic.Lowering{Step: &step, Ops: step.AppendOps(nil)}
	eager.Lower(&l)
	launches := 0.0
	for i := range l.Kernels {
		launches += l.Kernels[i].Launches * l.Kernels[i].Count
	}
	return int(launches)
}

// steps runs decode steps of the tiny model: in a graph for the host's part of each
// that the device does not hide, or eagerly for the whole of it.
func steps(ctx context.Context, w *worker.Worker, p *Point, o *Options) (*worker.Timed, error) {
	l := worker.Load{
		Model: "tiny", Config: []byte(tinyConfig), RandomWeights: true, DType: p.DType.String(), Device: o.Device, TP: 1,
		Workload: operator.Workload{Batch: p.Shape.Batch, PromptLen: tinyPrompt, GenLen: tinyGen}, Seed: 1, Graph: p.Kind == HostStep,
		Libraries: o.Libraries,
	}
	ready, err := w.Load(ctx, l)
	if err != nil {
		return nil, err
	}
	out := &worker.Timed{Graph: l.Graph}
	if len(ready.Devices) > 0 {
		out.Device = ready.Devices[0]
	}
	_, err = w.Run(ctx, worker.Run{Phase: worker.Decode, Passes: tinyPasses}, func(pass worker.Pass) {
		for _, s := range pass.Steps {
			t := float64(s.EndNS-s.StartNS) * 1e-9
			if p.Kind == HostStep {
				if s.DeviceS == nil {
					continue
				}
				t -= *s.DeviceS
			}
			if pass.Index > 0 && t > 0 {
				out.Seconds = append(out.Seconds, t)
			}
		}
	})
	if err == nil && len(out.Seconds) == 0 {
		err = &worker.Failure{Kind: worker.Unsupported, Message: fmt.Sprintf(
			"%s: the device has no clock of its own to take from the host's", p.Kind)}
	}
	return out, err
}
