package worker

import (
	"context"
	"io"

	"llmprof/measure/engine/native"
	"llmprof/measure/engine/native/cuda"
)

// ServeStandIn serves with a GPU that computes nothing.
func ServeStandIn(ctx context.Context, in io.Reader, out io.Writer) error {
	return serve(ctx, in, out, "stand-in", func(o native.Options) (*native.Engine, error) { return native.OnStandIn(o, cuda.NewStandIn()) })
}
