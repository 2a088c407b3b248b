package worker

import (
	"context"
	"io"

	"llmprof/measure/engine/native"
)

// ServeStandIn serves with a GPU that computes nothing.
func ServeStandIn(ctx context.Context, in io.Reader, out io.Writer) error {
	return serve(ctx, in, out, "stand-in", native.TeamOnStandIns)
}
