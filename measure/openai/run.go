package openai

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"llmprof/measure/result"
)

// A runner sends the requests of one Run.
type runner struct {
	options  Options
	endpoint *endpoint
	clients  *clients
	dialect  atomic.Pointer[dialect] // request form that the server was found to accept
	start    time.Time               // start of the first request measured
	ends     sync.WaitGroup          // waits for answers that are read to their end beside the next request
	lingers  atomic.Bool             // the server does not end an answer after [DONE]
	away     sync.Map                // other hosts that answered a page beside the requests
}

// Run asks the server as often as o wants, and gives what it saw. progress, which
// may be nil, is called after each request that counts, never twice at a time;
// done counts those that failed too.
//
// Where ctx ends first, Run ends at once with its cause, and what was finished
// until then; requests under way are not among it. Where every request failed,
// that is an error, with the records beside it.
func Run(ctx context.Context, o Options, progress func(done, failed int)) (*result.Serving, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	at, err := newEndpoint(o.BaseURL, o.API)
	if err != nil {
		return nil, err
	}
	r := &runner{options: o, endpoint: at, clients: o.clients()}
	defer r.clients.free()
	defer r.ends.Wait()
	r.dialect.Store(&dialect{})
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c := &collector{options: &r.options, endpoint: at.public, stop: stop}
	if err := r.warm(ctx, c); err != nil {
		return nil, err
	}
	var metrics *sampler
	if o.Metrics {
		metrics = r.sampler(ctx)
	}
	if o.Begin != nil {
		o.Begin()
	}
	r.start = time.Now()
	metrics.begin(ctx, r.start)
	keep := c.keeper(progress)
	if o.openLoop() {
		r.open(ctx, keep)
	} else {
		r.closed(ctx, o.Requests, o.Warmup, keep)
	}
	if o.End != nil {
		o.End()
	}
	c.metrics = metrics.end(ctx)
	r.countFirst(ctx, c.outcomes)
	c.note(r.dialect.Load().notes()...)
	c.note(metrics.notes()...)
	return c.serving(ctx)
}

// warm sends the requests that do not count. A server that fails them all would
// fail the others too.
func (r *runner) warm(ctx context.Context, c *collector) error {
	if r.options.Warmup == 0 {
		return ctx.Err()
	}
	w := &collector{options: &r.options, endpoint: c.endpoint, stop: c.stop, warmup: true}
	r.start = time.Now()
	r.closed(ctx, r.options.Warmup, 0, w.keeper(nil))
	if ctx.Err() != nil {
		return fmt.Errorf("the warm-up: %w", context.Cause(ctx))
	}
	if w.completed == 0 {
		return fmt.Errorf("the warm-up: %w", w.allFailed())
	}
	if failed := len(w.outcomes) - w.completed; failed > 0 {
		words, of := w.commonest()
		c.note(fmt.Sprintf("%d of %d requests of the warm-up failed, %d with %s", failed, len(w.outcomes), of, words))
	}
	return nil
}

// closed keeps as many requests under way as the concurrency says, each next one
// begun when one has ended. skip is how many prompts to pass over.
func (r *runner) closed(ctx context.Context, requests, skip int, keep func(*outcome)) {
	var next atomic.Int64
	var users sync.WaitGroup
	for worker := range min(max(r.options.Concurrency, 1), requests) {
		users.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= requests {
					return
				}
				r.request(ctx, job{worker: worker, index: i, skip: skip}, keep)
			}
		})
	}
	users.Wait()
}

// open sends requests when they are due, whether those before have ended or not.
// A bound on the concurrency makes them wait, which their times count.
func (r *runner) open(ctx context.Context, keep func(*outcome)) {
	var users sync.WaitGroup
	defer users.Wait()
	var slots chan struct{}
	if r.options.Concurrency > 0 {
		slots = make(chan struct{}, r.options.Concurrency)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i, at := range r.options.arrivals() {
		due := r.start.Add(at)
		ready := r.encode(i+r.options.Warmup, r.dialect.Load()) // before it is due
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		users.Go(func() {
			if slots != nil {
				select {
				case slots <- struct{}{}:
					defer func() { <-slots }()
				case <-ctx.Done():
					return
				}
			}
			r.request(ctx, job{index: i, skip: r.options.Warmup, due: due, ready: ready}, keep)
		})
	}
}

// arrivals are those given, or a Poisson process's: the times between them are exponential, and
// independent. The first is at 0.
func (o *Options) arrivals() []time.Duration {
	if len(o.Arrivals) > 0 {
		return o.Arrivals
	}
	random := rand.New(rand.NewPCG(o.Seed, 0x706f6973736f6e)) // "poisson": a stream of its own
	at := make([]time.Duration, o.Requests)
	sum := 0.
	for i := 1; i < len(at); i++ {
		sum += random.ExpFloat64() / o.RequestRate
		at[i] = time.Duration(min(sum, 1e9) * float64(time.Second))
	}
	return at
}

// A job is a request that is to be sent.
type job struct {
	worker, index int
	skip          int       // prompts to pass over
	due           time.Time // zero in a closed loop
	ready         encoded   // the request, where there was time to encode it
}

// An encoded request is the body of one in the words of a dialect.
type encoded struct {
	body    []byte
	tokens  int // The request asks for so many.
	dialect *dialect
}

// encode makes the body of a request.
func (r *runner) encode(n int, d *dialect) encoded {
	return encoded{r.options.body(n, d), r.options.outputTokens(r.options.prompt(n)), d}
}

// request sends one, and once more without what the server refuses to know. The
// time that a refusal took is not of the request: its clock starts anew.
func (r *runner) request(ctx context.Context, j job, keep func(*outcome)) {
	known := r.dialect.Load()
	d, due := known, j.due
	prompt := r.options.prompt(j.index + j.skip)
	for {
		if j.ready.dialect != d {
			j.ready = r.encode(j.index+j.skip, d)
		}
		o := r.exchange(ctx, j.worker, j.ready, due)
		if o.failure != nil && ctx.Err() != nil {
			return // the run was stopped; the request did not fail
		}
		if next := d.without(o.refusal, &r.options); next != nil {
			d, due = next, time.Time{}
			continue
		}
		if d != known && o.record.Status == http.StatusOK {
			r.dialect.Store(d)
		}
		if o.refusal != "" && len(prompt.Tokens) > 0 && strings.Contains(o.refusal, "prompt") {
			o.failure.Words += "; a server that takes no tokens takes texts: give --prompts a file of texts, or --api chat"
		}
		o.finish(j.index, r.start, &r.options)
		keep(o)
		return
	}
}

// finish fills in what the whole run knows of a request.
func (o *outcome) finish(index int, start time.Time, options *Options) {
	o.record.Index = index
	o.record.SentS = max(o.zero.Sub(start), 0).Seconds()
	o.record.Output = o.output.String()
	o.barren = nil // it would hold the request and its context for as long as the outcome is kept
	if f := o.failure; f != nil {
		options.redact(f)
		o.record.Failure, o.record.Error = f.Kind, f.Words
	}
}

// redact takes the key out of the server's words, for some repeat it, and makes
// one line of them.
func (o *Options) redact(f *Failure) {
	if o.Key != "" {
		f.Words = strings.ReplaceAll(f.Words, o.Key, "(the key)")
	}
	f.Words = clip(f.Words)
}
