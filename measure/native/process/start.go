package process

import (
	"context"
	"errors"
	"strings"

	"llmprof/measure/worker"
)

// Options say how the worker's process is started.
type Options struct {
	Command []string // this program, as it serves; Serve has to be what it runs
	GPUs    []string // UUIDs of those that it may see; nil for what this program sees
}

// Start starts a worker.
func Start(ctx context.Context, o Options) (*worker.Worker, error) {
	if len(o.Command) == 0 {
		return nil, errors.New("the native engine's program is not known")
	}
	env := []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID"}
	if len(o.GPUs) > 0 {
		env = append(env, "CUDA_VISIBLE_DEVICES="+strings.Join(o.GPUs, ","))
	}
	return worker.Start(ctx, worker.Spec{Command: o.Command, Env: env})
}
