package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"llmprof/measure/worker/internal/xid"
)

// A Worker is a running engine. Its commands are given one at a time; Stop alone
// may be called while another runs. After an error that is no *Failure, or one
// that is Fatal, the worker has ended and every further command gives the same
// error.
type Worker struct {
	process *process
	limits  Limits
	hello   Hello
	asked   string // the load that was asked for, in words
	devices []Device
	started time.Time

	mu   sync.Mutex // guards writes to the worker
	dead error
}

// Start runs a worker and waits for its hello. Cancelling ctx ends the start
// alone; each command has a context of its own.
func Start(ctx context.Context, spec Spec) (*Worker, error) {
	spec.Limits = spec.Limits.withDefaults()
	p, err := launch(spec)
	if err != nil {
		if spec.Cleanup != nil {
			spec.Cleanup()
		}
		return nil, err
	}
	w := &Worker{process: p, limits: spec.Limits, started: time.Now()}
	e, err := w.next(ctx, "its start", spec.Limits.Hello)
	if err != nil {
		return nil, err
	}
	if e.Hello == nil {
		return nil, w.violated("its start", e, errors.New("its first word was not hello"))
	}
	w.hello = *e.Hello
	p.name = e.Hello.Engine
	return w, nil
}

// Hello gives what the worker said of itself.
func (w *Worker) Hello() Hello { return w.hello }

// Log gives the last lines of the worker's log.
func (w *Worker) Log() []string { return w.process.Log() }

// ask gives a command whose answer is one event, and takes its field off that.
func ask[T any](ctx context.Context, w *Worker, c Command, during string, limit time.Duration, field func(*Event) *T) (*T, error) {
	if err := w.send(c); err != nil {
		return nil, err
	}
	e, err := w.answer(ctx, during, limit)
	if err != nil {
		return nil, err
	}
	if answer := field(&e); answer != nil {
		return answer, nil
	}
	return nil, w.violated(during, e, fmt.Errorf("%s is no answer to %s", e.Event, c.Do))
}

// Load makes the worker ready to run a model.
func (w *Worker) Load(ctx context.Context, l Load) (*Ready, error) {
	w.asked = l.String()
	ready, err := ask(ctx, w, Command{Do: "load", Load: &l}, "load", w.limits.Load, func(e *Event) *Ready { return e.Ready })
	if err == nil {
		w.devices = ready.Devices
	}
	return ready, err
}

// String says what is asked for, as an error message needs it.
func (l Load) String() string {
	text := fmt.Sprintf("%s in %s, batch %d, prompt %d, %d generated", l.Model, l.DType, l.Batch, l.PromptLen, l.GenLen)
	if l.Quantization != "" {
		text += ", " + l.Quantization
	}
	if l.TP > 1 {
		text += fmt.Sprintf(", TP %d", l.TP)
	}
	return text
}

// Prepare does what a phase needs once, so that Run begins with its first pass.
func (w *Worker) Prepare(ctx context.Context, phase Phase) error {
	_, err := ask(ctx, w, Command{Do: "prepare", Run: &Run{Phase: phase}}, "prepare "+string(phase), w.limits.Load,
		func(e *Event) *Done { return e.Done })
	return err
}

// Size counts what the model takes in memory.
func (w *Worker) Size(ctx context.Context) (*Sizes, error) {
	return ask(ctx, w, Command{Do: "size"}, "size", w.limits.Silence, func(e *Event) *Sizes { return e.Size })
}

// Trace runs passes of a phase under the engine's profiler.
func (w *Worker) Trace(ctx context.Context, t Trace) (*Traced, error) {
	return ask(ctx, w, Command{Do: "trace", Trace: &t}, "trace", w.limits.Load, func(e *Event) *Traced { return e.Traced })
}

// Stop asks the worker to end its run after the pass that it is in.
func (w *Worker) Stop() error { return w.write(Command{Do: "stop"}) }

// Close ends the worker: it is asked to quit, then terminated, then killed. It may
// be called twice.
func (w *Worker) Close() error {
	err := w.write(Command{Do: "quit"})
	p := w.process
	p.once.Do(func() { close(p.quiet) })
	if err == nil {
		timer := time.NewTimer(p.grace)
		defer timer.Stop()
		select {
		case <-p.Ended():
		case <-timer.C:
		}
	}
	p.end(context.Background())
	if w.dead == nil {
		w.dead = errors.New("the worker is closed")
	}
	return nil
}

// send writes a command, unless the worker has ended.
func (w *Worker) send(c Command) error {
	if w.dead != nil {
		return w.dead
	}
	// A worker that has just died cannot be written to; how it died is read
	// from its pipe, which says more than this error.
	_ = w.write(c)
	return nil
}

func (w *Worker) write(c Command) error {
	line, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("the command %s cannot be written: %w", c.Do, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.process.Input.Write(append(line, '\n'))
	return err
}

// answer is next for a command that has one event as its answer: error is one.
func (w *Worker) answer(ctx context.Context, during string, limit time.Duration) (Event, error) {
	e, err := w.next(ctx, during, limit)
	if err == nil && e.Error != nil {
		return Event{}, w.failed(*e.Error)
	}
	return e, err
}

// next waits for an event. All that goes wrong on the way ends the worker.
func (w *Worker) next(ctx context.Context, during string, limit time.Duration) (Event, error) {
	p := w.process
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case m, ok := <-p.events:
		switch {
		case !ok:
			w.dead = w.crashed(during)
		case m.err != nil:
			p.end(ctx)
			w.dead = &Violation{p.name, during, m.err, m.line, p.Log()}
		default:
			return m.event, nil
		}
	case <-timer.C:
		p.end(ctx)
		w.dead = &Hang{p.name, during, limit, p.Log()}
	case <-ctx.Done():
		p.end(context.WithoutCancel(ctx))
		w.dead = fmt.Errorf("%s: %s: %w", p.name, during, context.Cause(ctx))
	}
	return Event{}, w.dead
}

func (w *Worker) violated(during string, e Event, err error) error {
	w.process.end(context.Background())
	line, _ := json.Marshal(e) // the event was read from JSON, so that it can be written
	w.dead = &Violation{w.process.name, during, err, cut(line), w.process.Log()}
	return w.dead
}

// failed makes an error of what the worker could not do. A lack of memory says
// what was asked for, a GPU that failed what the driver reported.
func (w *Worker) failed(f Failure) error {
	if f.Kind == OutOfMemory && w.asked != "" && !strings.Contains(f.Message, w.asked) {
		f.Message = w.asked + ": " + f.Message
	}
	if f.Kind == GPUFailed {
		f.Message += "; " + w.gpuReport()
	}
	if f.Fatal {
		w.process.end(context.Background())
		w.dead = &f
	}
	return &f
}

// gpuErrors matches what CUDA, torch and NCCL say of a GPU on which nothing works any more.
var gpuErrors = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)CUDA_ERROR_|CUDA error|unhandled cuda error|fallen off the bus|GPU is lost|uncorrectable ECC`)
})

// gpuReport says which GPUs a worker had, why the driver says that one failed, and where to
// look. The kernel's log is that of this machine, as the worker is.
func (w *Worker) gpuReport() string {
	var had []string
	for _, d := range w.devices {
		text := d.Name
		if d.UUID != "" {
			text += " (" + d.UUID + ")"
		}
		had = append(had, text)
	}
	report := xid.Report(time.Since(w.started))
	if len(had) == 0 {
		return report
	}
	return fmt.Sprintf("it ran on %s: %s", strings.Join(had, ", "), report)
}

// crashed is the error of a worker that ended unasked.
func (w *Worker) crashed(during string) *Crash {
	c := &Crash{Engine: w.process.name, State: w.process.How(), During: during, Log: w.process.Log()}
	if gpuErrors().MatchString(strings.Join(c.Log, "\n")) {
		c.GPU = w.gpuReport()
	}
	return c
}
