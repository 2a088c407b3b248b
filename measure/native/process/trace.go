package process

import (
	"errors"
	"fmt"
	"os"

	"llmprof/measure/native"
	"llmprof/measure/worker"
)

// anchor is the annotation that ties a trace's time to the host's clock.
const anchor = "llmprof clock"

// A recorder makes a trace of passes, of rank 0: the phase and its steps on the host's row,
// layers and operators on those of the GPU. The times of the GPU are laid on the
// host's clock at the begin of each step, when the GPU has nothing to do; so they
// may be early by what it takes the host to reach the GPU, a few microseconds.
type recorder struct {
	s    *session
	e    *native.Engine
	t    *native.Tracer
	file *drawing // nil on the ranks that are not drawn
}

// trace writes a trace of passes of a phase.
func (s *session) trace(t *worker.Trace) (done *worker.Traced, err error) {
	if t.File == "" || t.Passes < 1 {
		return nil, worker.Invalidf("a trace of %d passes to %q: want a pass and a file", t.Passes, t.File)
	}
	if err := s.prepare(t.Phase); err != nil {
		return nil, err
	}
	done = &worker.Traced{File: t.File, Anchor: anchor, AnchorNS: s.clock()}
	file, err := newDrawing("native engine", os.Getpid(), anchor, done.AnchorNS)
	if err != nil {
		return nil, err
	}
	done.BeginNS = s.clock()
	err = s.team.Each(func(rank int, e *native.Engine) error {
		r := &recorder{s: s, e: e}
		if rank == 0 {
			r.file = file
		}
		return r.passes(t)
	})
	done.EndNS = s.clock()
	if err != nil {
		return nil, err
	}
	if err := file.WriteFile(t.File); err != nil {
		return nil, worker.Invalidf("the trace cannot be written: %v", err)
	}
	return done, nil
}

func (r *recorder) passes(t *worker.Trace) (err error) {
	if r.t, err = r.e.NewTracer(r.s.clock); err != nil {
		return err
	}
	for i := range t.Passes {
		if err = r.pass(t.Phase, i); err != nil {
			break
		}
	}
	return errors.Join(err, r.t.Close())
}

func (r *recorder) add(spans ...span) error {
	if r.file == nil {
		return nil
	}
	return r.file.add(spans...)
}

func (r *recorder) pass(p worker.Phase, index int) error {
	s := r.s
	begin := s.clock()
	if p == worker.Decode {
		if err := r.e.Rewind(s.first); err != nil {
			return err
		}
	} else {
		if err := r.e.SetPrompts(s.prompts[index%len(s.prompts)]); err != nil {
			return err
		}
		if err := r.step("prefill", r.t.Prefill); err != nil {
			return err
		}
	}
	if p != worker.Prefill {
		for i := range s.opt.GenLen - 1 {
			if err := r.step(fmt.Sprintf("decode step %d", i+1), r.t.Step); err != nil {
				return err
			}
		}
	}
	return r.add(span{row: hostRow, name: string(p), begin: float64(begin), end: float64(s.clock())})
}

// step makes one step and notes its operators, and the layers around them.
func (r *recorder) step(name string, do func() (*native.TracedStep, error)) error {
	step, err := do()
	if err != nil {
		return err
	}
	begin := float64(step.BeginNS)
	spans := []span{{row: hostRow, name: name, begin: begin, end: float64(step.EndNS)}}
	for i := range step.Spans {
		c := &step.Spans[i]
		ran := span{row: deviceRow, name: c.Name, begin: begin + 1e9*float64(c.Begin), end: begin + 1e9*float64(c.End)}
		if len(c.Includes) > 0 {
			ran.args = map[string]any{"includes": c.Includes}
		}
		spans = append(spans, ran)
	}
	return r.add(append(spans, layersOf(begin, step.Spans)...)...)
}

// layersOf are the spans of the layers: of each run of calls that are of one.
func layersOf(begin float64, calls []native.TracedCall) (spans []span) {
	for i := 0; i < len(calls); {
		j := i + 1
		for j < len(calls) && calls[j].Layer == calls[i].Layer {
			j++
		}
		if calls[i].Layer >= 0 {
			spans = append(spans, span{
				row: layerRow, name: fmt.Sprintf("layer %d", calls[i].Layer),
				begin: begin + 1e9*float64(calls[i].Begin), end: begin + 1e9*float64(calls[j-1].End),
			})
		}
		i = j
	}
	return spans
}
