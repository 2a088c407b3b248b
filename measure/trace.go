package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"llmprof/internal/atomicfile"
	"llmprof/measure/experiment"
	"llmprof/measure/native/process"
	"llmprof/measure/power"
	"llmprof/measure/result"
	"llmprof/measure/tracefile"
	"llmprof/measure/worker"
)

// hashInName is how much of a point's hash the names of its traces have.
const hashInName = 12

// traceable makes the folder of a point's traces, or says why none can be written there, before anything is measured.
func traceable(p *experiment.Point) error {
	if p.Trace == "" {
		return nil
	}
	err := os.MkdirAll(p.Trace, 0o777)
	if err == nil {
		err = atomicfile.Probe(filepath.Join(p.Trace, "trace.json"))
	}
	if err != nil {
		return fmt.Errorf("the folder of traces: %w", err)
	}
	return nil
}

// trace runs a pass of each phase under the engine's profiler, after everything
// else was measured, for a profiler slows what it watches. The first replica
// stands for all. Beside the trace, in which the power of the GPUs is a track,
// lie the sums of its kernels and of their types.
func (l *Lab) trace(ctx context.Context, set *Settings, p *experiment.Point, b *bench, results []*result.Result) error {
	hash, err := p.Hash()
	if err != nil {
		return err
	}
	folder, err := filepath.Abs(p.Trace) // the worker has a folder of its own
	if err != nil {
		return err
	}
	for _, phase := range set.phases() {
		name := filepath.Join(folder, "trace-"+hash[:hashInName]+"-"+string(phase))
		l.say("trace " + string(phase) + " to " + name + ".json")
		if err := traceTo(ctx, name, phase, b.workers[0], b.meters.of(0)); err != nil {
			return fmt.Errorf("trace %s: %w", phase, err)
		}
		results[0].Engine.Notes = append(results[0].Engine.Notes, "trace of "+string(phase)+": "+filepath.Base(name)+".json")
	}
	return nil
}

// traceTo writes NAME.json, NAME-kernels.csv and NAME-types.csv.
func traceTo(ctx context.Context, name string, phase worker.Phase, w *worker.Worker, meter *power.Monitor) (err error) {
	var mark power.Mark
	if meter != nil {
		if mark, err = meter.Begin(ctx); err != nil {
			return err
		}
	}
	raw := name + ".part" // the worker's trace, without the meters
	defer func() { err = errors.Join(err, os.RemoveAll(raw)) }()
	done, err := w.Trace(ctx, worker.Trace{Phase: phase, Passes: 1, File: raw})
	if err != nil {
		return err
	}
	trace, err := tracefile.ReadFile(raw)
	if err != nil {
		return err
	}
	if err := trace.Anchor(done.Anchor, done.AnchorNS); err != nil {
		return err
	}
	if meter != nil {
		window, err := meter.End(ctx, mark)
		if err != nil {
			return err
		}
		tracks, err := powerTracks(window.Samples)
		if err != nil {
			return err
		}
		if err := trace.AddCounters(tracks...); err != nil {
			return err
		}
	}
	if err := trace.WriteFile(name + ".json"); err != nil {
		return err
	}
	kernels := trace.Kernels()
	return errors.Join(
		atomicfile.Write(name+"-kernels.csv", 0o666, func(to io.Writer) error { return tracefile.WriteKernels(to, kernels) }),
		atomicfile.Write(name+"-types.csv", 0o666, func(to io.Writer) error { return tracefile.WriteTypes(to, kernels) }))
}

// workerTime is a moment on the clock that workers use.
func workerTime(t time.Time) (int64, error) {
	now, err := process.Monotonic()
	return now + time.Until(t).Nanoseconds(), err
}

func powerTracks(samples []power.Sample) ([]tracefile.Counter, error) {
	byDomain := map[string]*tracefile.Counter{}
	for _, s := range samples {
		at, err := workerTime(s.Time)
		if err != nil {
			return nil, err
		}
		c := byDomain[s.Domain]
		if c == nil {
			c = &tracefile.Counter{Name: s.Domain + " power", Unit: "W"}
			byDomain[s.Domain] = c
		}
		c.Samples = append(c.Samples, tracefile.Sample{NS: at, Value: s.Watts})
	}
	var tracks []tracefile.Counter
	for _, domain := range slices.Sorted(maps.Keys(byDomain)) {
		c := byDomain[domain]
		slices.SortFunc(c.Samples, func(a, b tracefile.Sample) int { return int(a.NS - b.NS) })
		tracks = append(tracks, *c)
	}
	return tracks, nil
}
