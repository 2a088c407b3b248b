// Package process is the native engine as a process of its own: it takes the
// commands of package worker's protocol, and starts the process that does.
package process

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"llmprof/measure/native"
	"llmprof/measure/worker"
)

// Name is the engine's in results.
const Name = "native"

// heap is how large the host's memory may grow before Go collects garbage, so
// that it does not in the middle of what is timed.
const heap = 512 << 20

// Serve takes commands from in and writes events to out until it is asked to
// quit, in ends or ctx does. The last two may leave the GPU at work: the process
// has to end then, which frees it.
func Serve(ctx context.Context, in io.Reader, out io.Writer, version string) error {
	return ServeOn(ctx, in, out, version, native.OpenTeam)
}

// ServeOn is Serve with engines that open opens, such as those on a stand-in.
func ServeOn(ctx context.Context, in io.Reader, out io.Writer, version string, open Opener) error {
	w := &server{clock: newClock(), open: open, out: bufio.NewWriter(out), commands: make(chan worker.Command, 16)}
	w.send(worker.Event{Event: "hello", Hello: &worker.Hello{
		Protocol: worker.Protocol, Engine: Name, Version: version, PID: os.Getpid(), Versions: map[string]string{"go": runtime.Version()},
	}})
	listened, worked := make(chan error, 1), make(chan error, 1)
	go func() { listened <- w.listen(in) }()
	go func() { worked <- w.work() }()
	select {
	case err := <-worked:
		return err
	case <-ctx.Done():
		return nil
	case err := <-listened:
		if err != nil {
			return err
		}
	}
	select { // the driver is gone
	case err := <-worked:
		return err
	case <-ctx.Done():
	case <-time.After(grace):
	}
	return nil
}

// grace is how long a command may go on that nobody waits for any more.
const grace = 2 * time.Second

// An Opener opens the engines of the GPUs that share a model.
type Opener func(native.Options) (*native.Team, error)

// A server is what is loaded, and the pipes to the driver.
type server struct {
	clock    func() int64
	open     Opener
	out      *bufio.Writer
	broken   error // error of writing to out
	commands chan worker.Command
	stopped  atomic.Bool
	session  *session
	bencher  *native.Bencher // times operators by themselves; nil while a model is loaded
}

// newClock gives nanoseconds of CLOCK_MONOTONIC, by which Go counts too; since it was called where that is not read.
func newClock() func() int64 {
	start := time.Now()
	base, _ := Monotonic() // on Linux, where the engine runs, it cannot fail
	return func() int64 { return base + time.Since(start).Nanoseconds() }
}

// listen reads commands. It goes on while one is obeyed, for stop comes then.
func (w *server) listen(in io.Reader) error {
	lines := json.NewDecoder(in)
	for {
		var c worker.Command
		err := lines.Decode(&c)
		if errors.Is(err, io.EOF) {
			w.stopped.Store(true)
			close(w.commands)
			return nil
		}
		if err != nil {
			return fmt.Errorf("a command of the driver cannot be read: %w", err)
		}
		w.stopped.Store(c.Do == "stop")
		if c.Do != "stop" {
			w.commands <- c
		}
	}
}

// work obeys commands one after the other. A goroutine of its own does, for the
// GPU belongs to one.
func (w *server) work() error {
	for c := range w.commands {
		if c.Do == "quit" {
			return w.unload()
		}
		if err := w.obey(c); err != nil {
			f := classify(err)
			w.send(worker.Event{Event: "error", Error: f})
			if f.Fatal {
				return f
			}
		}
		if w.broken != nil {
			return fmt.Errorf("the driver cannot be reached: %w", w.broken)
		}
	}
	return w.unload()
}

// obey does one command and answers it, unless it fails.
func (w *server) obey(c worker.Command) error {
	switch {
	case c.Do == "load" && c.Load != nil:
		return w.load(c.Load)
	case c.Do == "bench" && c.Bench != nil:
		return w.bench(c.Bench)
	case !slices.Contains([]string{"prepare", "run", "size", "ops", "trace"}, c.Do):
		return worker.Invalidf("no command %q, or nothing with it", c.Do)
	case w.session == nil:
		return worker.Invalidf("%s came before load", c.Do)
	case c.Do == "ops" && c.Ops != nil:
		return w.ops(c.Ops)
	case c.Do == "trace" && c.Trace != nil:
		return w.trace(c.Trace)
	case c.Do == "size":
		w.send(worker.Event{Event: "size", Size: w.session.sizes()})
		return nil
	case c.Run == nil:
		return worker.Invalidf("%s says nothing of a phase", c.Do)
	case c.Do == "prepare":
		if err := w.session.prepare(c.Run.Phase); err != nil {
			return err
		}
		now := w.clock()
		w.send(worker.Event{Event: "done", Done: &worker.Done{BeginNS: now, EndNS: now}})
		return nil
	}
	return w.run(c.Run)
}

func (w *server) trace(t *worker.Trace) error {
	done, err := w.session.trace(t)
	if err != nil {
		return err
	}
	w.send(worker.Event{Event: "traced", Traced: done})
	return nil
}

func (w *server) load(l *worker.Load) error {
	if err := w.unload(); err != nil {
		return err
	}
	s, err := open(l, w.clock, w.open)
	if err != nil {
		return err
	}
	w.session = s
	debug.FreeOSMemory() // buffers that the weights were read into
	w.send(worker.Event{Event: "ready", Ready: s.ready()})
	return nil
}

func (w *server) unload() error {
	s, b := w.session, w.bencher
	w.session, w.bencher = nil, nil
	var err error
	if b != nil {
		err = b.Close()
	}
	if s != nil {
		err = errors.Join(err, s.close())
	}
	return err
}

// run repeats a phase, and writes what a pass saw after it.
func (w *server) run(r *worker.Run) error {
	if math.IsNaN(r.Seconds) || r.Seconds < 0 || r.Passes < 0 {
		return worker.Invalidf("a run of %d passes and %v s", r.Passes, r.Seconds)
	}
	if err := w.session.prepare(r.Phase); err != nil {
		return err
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(heap))
	runtime.GC()
	begin, passes := w.clock(), 0
	for (passes < r.Passes || float64(w.clock()-begin) < r.Seconds*1e9) && !w.stopped.Load() && w.broken == nil {
		events, err := w.session.pass(r.Phase, passes)
		if err != nil {
			return err
		}
		w.send(events...)
		passes++
	}
	w.send(worker.Event{Event: "done", Done: &worker.Done{Passes: passes, BeginNS: begin, EndNS: w.clock()}})
	return nil
}

// send writes events, a line each. What goes wrong is noted in broken.
func (w *server) send(events ...worker.Event) {
	lines := json.NewEncoder(w.out)
	for i := range events {
		if err := lines.Encode(&events[i]); err != nil {
			w.broken = errors.Join(w.broken, err)
			return
		}
	}
	w.broken = errors.Join(w.broken, w.out.Flush())
}
