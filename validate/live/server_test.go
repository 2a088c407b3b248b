package live_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"llmprof/deployment"
	"llmprof/internal/testkit"
	"llmprof/measure/experiment"
	"llmprof/measure/result"
	"llmprof/validate/live"
)

// TestMeasuredBeforeAnErrorIsKept has a server that answers one request at a time and not the load.
func TestMeasuredBeforeAnErrorIsKept(t *testing.T) {
	ctx := context.Background()
	d, err := deployment.Open(func(string) string { return "" }).Serve(ctx, &deployment.Request{Model: "llama3.2-1b", GPU: "h100"})
	testkit.Must(t, err)
	server, err := d.Server(ctx)
	testkit.Must(t, err)
	var point experiment.Point
	point.PromptLen, point.GenLen, point.RequestRate = 64, 8, 2
	gone := errors.New("the server stopped answering")
	s, err := live.MeasureServer(ctx, live.ServerOptions{Server: server, Point: point, Time: time.Second,
		Measure: func(_ context.Context, p experiment.Point) ([]*result.Result, error) {
			if p.RequestRate > 0 {
				return nil, gone
			}
			r := &result.Result{TTFT: new(result.Times), TPOT: new(result.Times), TTLT: new(result.Times), Serving: new(result.Serving)}
			r.TTFT.Median, r.TPOT.Median, r.TTLT.Median, r.Workload.PromptLen = 0.01, 0.001, 0.017, p.PromptLen
			return []*result.Result{r}, nil
		}}, new(log))
	if !errors.Is(err, gone) || len(s.Loads) != 2 || len(s.Parts) != 0 || s.Loads[1].Name != "idle" || s.Loads[1].Figures[0].Predicted <= 0 {
		t.Errorf("%v: %+v", err, s)
	}
}
