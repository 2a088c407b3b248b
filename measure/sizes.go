package measure

import (
	"context"
	"fmt"
	"math"

	"llmprof/analytic"
	"llmprof/measure/result"
	"llmprof/measure/worker"
	"llmprof/unit"
)

// size counts memory, after a forward if no phase has run one.
func (s *session) size(ctx context.Context) error {
	s.say("size")
	if len(s.phases) == 0 {
		if _, err := s.worker.Run(ctx, worker.Run{Phase: worker.Request, Passes: 1}, func(worker.Pass) {}); err != nil {
			return err
		}
	}
	got, err := s.worker.Size(ctx)
	if err != nil {
		return err
	}
	s.res.Engine.Notes = append(s.res.Engine.Notes, fmt.Sprintf("the KV cache was counted with room for %d tokens a sequence", got.KVTokens))
	var want *analytic.Memory
	if s.set.Theory != nil {
		if want, err = s.set.Theory(got.KVTokens); err != nil {
			s.warn("", "no theory of the sizes: %v", err)
		}
	}
	s.res.Sizes = sizes(got, want, s.set.Parallelism.TP)
	for _, d := range differ(s.res.Sizes) {
		s.warn("", "%s", d)
	}
	return nil
}

// Sizes that the theory knows exactly (parameters, KV cache) may differ from the
// counted ones by as much as padding, before it is said.
const sizeTolerance = 0.01

// sizes sets what the engine counted beside what the theory says. The counted
// cache holds as many tokens as the engine made room for, which a static cache
// does ahead. Counted is what all ranks hold together, the theory of one of them.
func sizes(got *worker.Sizes, want *analytic.Memory, ranks int) *result.Sizes {
	s := &result.Sizes{
		Params: &got.ParamsBytes, Buffers: &got.BuffersBytes, KV: &got.KVBytes, State: &got.StateBytes,
		Activations: got.Activations, Peak: got.PeakBytes, Reserved: got.Reserved,
	}
	if want != nil {
		n := float64(ranks)
		s.Analytic = &result.AnalyticSizes{
			Params: n * float64(want.Weights), KV: n * float64(want.KV), State: n * float64(want.State), Activations: n * float64(want.Activations),
		}
	}
	return s
}

func differ(s *result.Sizes) []string {
	if s == nil || s.Analytic == nil {
		return nil
	}
	var said []string
	for _, c := range []struct {
		what string
		got  *int64
		want float64
	}{{"parameters", s.Params, s.Analytic.Params}, {"KV cache", s.KV, s.Analytic.KV}, {"state", s.State, s.Analytic.State}} {
		if c.got == nil || (*c.got == 0 && c.want == 0) {
			continue
		}
		if off := float64(*c.got)/c.want - 1; !(math.Abs(off) <= sizeTolerance) {
			said = append(said, fmt.Sprintf("the engine holds %v of %s where the theory has %v (%+.1f %%)", unit.Bytes(*c.got), c.what,
				unit.Bytes(c.want), 100*off))
		}
	}
	return said
}
