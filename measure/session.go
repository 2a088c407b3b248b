package measure

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"sync"
	"time"

	"llmprof/measure/result"
	"llmprof/measure/worker"
)

// A Worker runs a model; package engine starts them.
type Worker interface {
	Hello() worker.Hello
	Load(context.Context, worker.Load) (*worker.Ready, error)
	Prepare(context.Context, worker.Phase) error
	Run(context.Context, worker.Run, func(worker.Pass)) (*worker.Done, error)
	Stop() error
	Size(context.Context) (*worker.Sizes, error)
}

// A session is one measurement under way.
type session struct {
	set     *Settings
	worker  Worker
	meter   Meter                              // nil if energy is not measured
	sensors Meter                              // nil where the machine has none
	looked  func() ([]result.Condition, error) // ends the reading of clocks
	clock   func(time.Time) (int64, error)
	group   *group
	say     func(string)
	res     *result.Result
	phases  map[worker.Phase]*phaseRun
	rest    *result.Window // idle, with the weights resident
}

// notWanted is the reason of figures that were not asked for.
const notWanted = "not asked for"

// runReplicas loads the model into a worker for each replica, repeats each phase that is
// wanted with all of them busy at once, and returns a result for each; if one fails, all
// do. A meter is nil where there is no sensor; where no energy is wanted, it is asked for
// clocks alone. Each line of progress goes to say.
func runReplicas(ctx context.Context, set *Settings, workers []Worker, meters []Meter, say func(string)) ([]*result.Result, error) {
	if err := set.check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	all := newGroup(len(workers))
	results := make([]*result.Result, len(workers))
	var running sync.WaitGroup
	for i, w := range workers {
		named := func(text string) string { return text }
		if len(workers) > 1 {
			named = func(text string) string { return fmt.Sprintf("replica %d: %s", i, text) }
		}
		running.Go(func() {
			var meter Meter
			if i < len(meters) {
				meter = meters[i]
			}
			s := newSession(set, w, meter, all, func(line string) { say(named(line)) })
			r, err := s.measure(ctx)
			if err != nil {
				cancel(fmt.Errorf("%s%w", named(""), err))
				return
			}
			r.Process, r.Processes = i, len(workers)
			results[i] = r
		})
	}
	running.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return results, nil
}

func newSession(set *Settings, w Worker, meter Meter, g *group, say func(string)) *session {
	s := &session{set: set, worker: w, sensors: meter, clock: workerTime, group: g, say: say}
	if set.Energy {
		s.meter = meter
	}
	return s
}

func (s *session) measure(ctx context.Context) (*result.Result, error) {
	s.res, s.phases = s.blank(), map[worker.Phase]*phaseRun{}
	if err := s.load(ctx); err != nil {
		return nil, err
	}
	for _, p := range s.set.phases() {
		run, err := s.phase(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		s.phases[p] = run
		s.say(run.line(p))
	}
	if s.set.Size {
		if err := s.size(ctx); err != nil {
			return nil, err
		}
	}
	if err := s.idleLoaded(ctx); err != nil {
		return nil, err
	}
	s.res.Ended = time.Now()
	return s.res, s.conclude()
}

// blank is a result with what is known before anything ran.
func (s *session) blank() *result.Result {
	r := &result.Result{
		Schema: result.Schema, Processes: 1, Started: time.Now(),
		Model: s.set.Model, Parallelism: s.set.Parallelism, Workload: s.set.Workload,
		Closure: []result.Closure{}, Conditions: []result.Condition{}, Reasons: map[string]string{},
		Marks: []string{}, Warnings: []string{},
	}
	for key, wanted := range map[string]bool{
		"ttft_s": s.set.TTFT, "tpot_s": s.set.TPOT, "step_s": s.set.TPOT, "ttlt_s": s.set.TTLT, "sizes_bytes": s.set.Size, "energy": s.set.Energy,
		"meter": s.set.Energy,
	} {
		if !wanted {
			r.Reasons[key] = notWanted
		}
	}
	r.Reasons["serving"], r.Reasons["operators"] = "the engine is not asked over HTTP", notWanted
	h := s.worker.Hello()
	r.Engine = result.Engine{Name: h.Engine, Version: h.Version, Versions: maps.Clone(h.Versions), Options: map[string]string{},
		Notes: []string{}}
	return r
}

func (s *session) load(ctx context.Context) error {
	s.say("load")
	ready, err := s.worker.Load(ctx, s.set.Load)
	if err != nil {
		return err
	}
	e := &s.res.Engine
	e.Timer, e.LoadS = ready.Timer, &ready.LoadS
	e.Notes = append(e.Notes, ready.Notes...)
	maps.Copy(e.Options, ready.Options)
	s.res.Machine.GPUs = gpusOf(ready.Devices)
	if s.sensors != nil {
		s.sensors.Own(os.Getpid(), s.worker.Hello().PID)
	}
	s.res.Model.ParamsTotal = cmp.Or(s.res.Model.ParamsTotal, ready.Params)
	if want := s.res.Model.ParamsTotal; ready.Params != 0 && want != ready.Params {
		s.warn("", "the engine loaded %d parameters where the model is known to have %d", ready.Params, want)
	}
	return nil
}

// warn notes what makes a figure doubtful, under a mark if it has one.
func (s *session) warn(mark, format string, args ...any) {
	warn(s.res, mark, format, args...)
}
