package measure

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"llmprof/internal/stats"
	"llmprof/measure/result"
	"llmprof/measure/worker"
)

// operatorTimer is a worker that can time its operators one by one.
type operatorTimer interface {
	Ops(context.Context, worker.Ops) ([]worker.Op, error)
}

// operatorsHow is what the times of operators are.
const operatorsHow = "each operator of all layers replayed in a CUDA graph of its own, with its own weights, after a step that is not " +
	"timed; " +
	"device events around it; the whole step in turn with them"

// operatorClosure is how far the sum of the operators may be from the step. In
// the step a kernel begins while the one before it ends, and between two replays
// of one operator the same happens, but not alike.
const operatorClosure = 0.10

// operators times the operators of a prefill and of a decode step, as far as
// they are part of what is measured, and adds them to the result. The worker has
// the model loaded.
func operators(ctx context.Context, w operatorTimer, set *Settings, r *result.Result, say func(string)) error {
	found := &result.Operators{How: operatorsHow}
	for _, p := range operatorPhases(set) {
		say(fmt.Sprintf("operators of %s", p))
		ops, err := w.Ops(ctx, worker.Ops{Phase: p, Rounds: set.Repeats})
		if err != nil {
			return fmt.Errorf("operators of %s: %w", p, err)
		}
		phase, err := operatorPhase(ops)
		if err != nil {
			return fmt.Errorf("operators of %s: %w", p, err)
		}
		name := "operators of a decode step sum to the step"
		if p == worker.Decode {
			found.Decode = phase
		} else {
			found.Prefill, name = phase, "operators of a prefill sum to the prefill"
		}
		c := closes(name, phase.Step.Median, phase.Sum, operatorClosure)
		r.Closure = append(r.Closure, c)
		heed(r, c)
	}
	r.Operators = found
	delete(r.Reasons, "operators")
	return nil
}

// operatorPhases are those of the steps that are measured; where none is, all.
func operatorPhases(set *Settings) []worker.Phase {
	measured := set.phases()
	all := len(measured) == 0 || slices.Contains(measured, worker.Request)
	var out []worker.Phase
	if all || slices.Contains(measured, worker.Prefill) {
		out = append(out, worker.Prefill)
	}
	if (all || slices.Contains(measured, worker.Decode)) && set.Load.GenLen > 1 {
		out = append(out, worker.Decode)
	}
	return out
}

// operatorPhase turns what a worker said, the whole as the last, into a part of
// the result.
func operatorPhase(ops []worker.Op) (*result.OperatorPhase, error) {
	p := &result.OperatorPhase{Ops: []result.OperatorTime{}}
	for i := range ops {
		o := &ops[i]
		sum, err := stats.Summarize(o.SamplesS)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Name, err)
		}
		times := result.OperatorTimes{Summary: *sum, Samples: o.SamplesS}
		if o.Whole {
			p.Context, p.Step = o.Context, times
			continue
		}
		p.Sum += sum.Median
		p.Ops = append(p.Ops, result.OperatorTime{Name: o.Name, Includes: o.Includes, Layers: o.Layers, Kernels: o.Kernels, Time: times})
	}
	return p, nil
}

// timeOperators adds the operators of the first replica, which stands for all, to
// its result. Where they cannot be timed, the result keeps what was measured and
// says why they are not there. It reports whether the worker is fit for more.
func (l *Lab) timeOperators(ctx context.Context, set *Settings, w operatorTimer, results []*result.Result) (fit bool, err error) {
	for _, r := range results[1:] {
		r.Reasons["operators"] = "those of replica 0 stand for all"
	}
	r := results[0]
	err = operators(ctx, w, set, r, l.say)
	if err == nil || ctx.Err() != nil {
		return true, err
	}
	r.Reasons["operators"] = err.Error()
	warn(r, "", "%v", err)
	l.say("no " + err.Error())
	var failure *worker.Failure
	return errors.As(err, &failure) && !failure.Fatal, nil
}
