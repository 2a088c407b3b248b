package measure

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"llmprof/internal/concurrent"
	"llmprof/measure/openai"
	"llmprof/measure/result"
)

// Defaults of asking a server: enough requests for a 99th percentile to be more than the greatest of a few, and
// for a server that is asked at a rate to reach its steady state.
const (
	leastRequests     = 100
	requestsPerClient = 10
	secondsAtRate     = 60
)

// KeyVariable is where the key of a server is looked for: never on a command
// line, where others see it.
const KeyVariable = "OPENAI_API_KEY"

// firstToken is where random tokens of a large vocabulary begin: special ones are
// mostly below.
const firstToken = 1000

// controls is how many prompts that were never sent before are sent to detect a cache.
const controls = 5

// options are what the point wants of the server, but for the prompts.
func (b *benchmark) options(ctx context.Context) (o openai.Options, err error) {
	p := b.point
	o = openai.Options{
		BaseURL: p.BaseURL, API: p.API, Model: cmp.Or(p.ServedModel, p.Model), Key: b.Env(KeyVariable),
		Concurrency: p.Concurrency, RequestRate: p.RequestRate, Requests: p.Requests, Warmup: p.Warmup,
		GenLen: p.GenLen, IgnoreEOS: p.Prompts == randomPrompts, Seed: b.seed, Connections: p.Connections,
		Sampling: openai.Sampling{Temperature: p.Temperature},
		Timeout:  cmp.Or(p.Timeout.Duration(), openai.DefaultTimeout), SaveOutputs: p.SaveOutputs,
	}
	if p.RequestRate == 0 {
		o.Concurrency = cmp.Or(p.Concurrency, 1)
		o.Warmup = cmp.Or(p.Warmup, 2*o.Concurrency)
	}
	o.Requests = cmp.Or(p.Requests, max(leastRequests, requestsPerClient*o.Concurrency, int(secondsAtRate*p.RequestRate)))
	if p.Temperature > 0 {
		o.Sampling.Seed = p.Seed
	}
	if p.Prompts == randomPrompts {
		o.PromptLen = p.PromptLen
	}
	o.SLO, err = openai.ParseSLO(p.SLO)
	o.Begin = func() {
		switch m := b.meters.of(0); {
		case m != nil && p.Energy:
			b.mark, b.err = m.Begin(ctx)
		case m != nil:
			b.looked = m.Look(ctx)
		}
		b.say(fmt.Sprintf("%d requests; one that hears nothing for %v has failed", b.asks.Requests, o.Timeout))
		b.asked.begin()
	}
	o.End = func() {
		if b.looked != nil {
			seen, err := b.looked()
			b.looked = func() ([]result.Condition, error) { return seen, err }
		}
		if m := b.meters.of(0); m != nil && p.Energy && b.err == nil && ctx.Err() == nil {
			b.window, b.err = m.End(ctx, b.mark)
		}
	}
	if b.Records != nil {
		o.Each = b.record
	}
	return o, err
}

// record writes a request as a line of JSON.
func (b *benchmark) record(r *result.Record) {
	line, err := json.Marshal(r)
	if err == nil {
		_, err = b.Records.Write(append(line, '\n'))
	}
	if b.unwritten == nil {
		b.unwritten = err
	}
}

// prepare asks the server what it is, and makes prompts that it takes.
func (b *benchmark) prepare(ctx context.Context) (err error) {
	if b.about, err = openai.Inquire(ctx, b.asks); err != nil {
		return err
	}
	b.asks.Metrics = b.about.HasMetrics
	if b.point.Prompts != randomPrompts {
		return nil
	}
	n := b.asks.Requests + b.asks.Warmup
	l, err := plan(b.point, n, b.seed)
	switch {
	case err != nil:
	case l == nil && n > mostPrompted/b.point.PromptLen:
		err = fmt.Errorf("%d prompts of %d tokens are more than %d tokens in all: give fewer --requests", n, b.point.PromptLen, mostPrompted)
	case l == nil:
		b.asks.Prompts, err = b.random(ctx, b.seed, n, b.point.PromptLen)
	default:
		if b.point.Load != "" {
			b.asks.Requests, b.asks.Arrivals, b.asks.Concurrency, b.asks.Warmup = len(l.lengths), l.arrivals, 0, 0
			b.decided = l.decided
		}
		b.asks.PromptLen = 0
		b.asks.Prompts, err = b.planned(ctx, l)
	}
	return err
}

func promptsOf(file string) ([]openai.Prompt, error) {
	tokens, texts, err := readPrompts(file)
	if err != nil {
		return nil, err
	}
	var all []openai.Prompt
	for _, ids := range tokens {
		all = append(all, openai.Prompt{Tokens: ids})
	}
	for _, text := range texts {
		all = append(all, openai.Prompt{Text: text})
	}
	return all, nil
}

// random makes prompts of so many tokens: of tokens where the server
// takes them and the vocabulary is known, else of words, as many as make the tokens
// by its own count.
func (b *benchmark) random(ctx context.Context, seed uint64, n, length int) ([]openai.Prompt, error) {
	takes, vocab, err := b.takesTokens(ctx)
	if err != nil {
		return nil, err
	}
	if takes {
		return openai.RandomTokens(n, length, min(firstToken, vocab/2), vocab, seed), nil
	}
	prompts := openai.RandomText(n, length, seed)
	counter, err := b.counter(ctx)
	if err != nil {
		return nil, err
	}
	defer counter.Close()
	return prompts, openai.Fit(ctx, counter, prompts, length)
}

// counter counts tokens as the server does.
func (b *benchmark) counter(ctx context.Context) (*openai.Counter, error) {
	c, err := openai.NewCounter(ctx, b.asks)
	if err != nil {
		return nil, b.named(err)
	}
	b.counted = c.How
	return c, nil
}

// takesTokens reports whether the server takes prompts of tokens, and the size of its vocabulary.
func (b *benchmark) takesTokens(ctx context.Context) (takes bool, vocab int, err error) {
	if b.point.API != openai.Completions {
		return false, 0, nil
	}
	if vocab = b.vocabulary(); vocab == 0 {
		return false, 0, nil
	}
	takes, err = openai.TakesTokens(ctx, b.asks, openai.Prompt{Tokens: []int{min(firstToken, vocab/2)}})
	if err != nil {
		return false, 0, b.named(err)
	}
	if !takes {
		b.say("the server takes no prompts of tokens: they are texts")
	}
	return takes, vocab, nil
}

// vocabulary is the least that the model and the server say, 0 where neither does.
func (b *benchmark) vocabulary() int {
	known := b.about.Vocab
	if b.model != nil && (known == 0 || b.model.Vocab < known) {
		known = b.model.Vocab
	}
	return known
}

// named adds to an error which models the server has, if it has not the one that it
// is asked for.
func (b *benchmark) named(err error) error {
	if err == nil || b.about == nil || len(b.about.Models) == 0 {
		return err
	}
	if slices.Contains(b.about.Models, b.asks.Model) {
		return err
	}
	const most = 10
	list := b.about.Models
	more := ""
	if len(list) > most {
		list, more = list[:most], fmt.Sprintf(" and %d more", len(list)-most)
	}
	return fmt.Errorf("%w; the server lists no model %q but %s%s: give its name with --served-model", err, b.asks.Model,
		strings.Join(list, ", "), more)
}

// control detects a prefix cache where the server reports none.
func (b *benchmark) control(ctx context.Context, r *result.Result) error {
	s := r.Serving
	if c := s.PrefixCache; c.Share != nil {
		if *c.Share > cachedShare {
			r.Marks = append(r.Marks, "cached") // a note of the requests says it
		}
		return nil
	}
	length := b.point.PromptLen
	if s.PromptTokens != nil && b.point.Prompts != randomPrompts {
		length = int(s.PromptTokens.Median)
	}
	prompts, err := b.random(ctx, rand.Uint64(), controls, length) // a fresh seed, so that no prompt was seen before
	if err != nil {
		return err
	}
	hit, err := openai.Control(ctx, b.asks, s, prompts)
	if err == nil && hit {
		warn(r, "cached", "the median TTFT is %.3g s, but %.3g s of prompts that were never sent before, one at a time: the server answered "+
			"from a cache of prefixes",
			r.TTFT.Median, *s.PrefixCache.ControlTTFT)
	}
	return err
}

// cachedShare is the part of the prompts that may come from a cache before the result
// is marked: TTFT is shorter by about as much.
const cachedShare = 0.01

// A progress is how far the requests are.
type progress struct {
	mu           sync.Mutex
	since        time.Time
	done, failed int
}

func (p *progress) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Now()
}

// count notes the requests that have ended.
func (p *progress) count(done, failed int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.failed = done, failed
}

// line says how far they are; "" before the first is sent.
func (p *progress) line(of int, timeout time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() {
		return ""
	}
	took := time.Since(p.since)
	text := fmt.Sprintf("%d/%d requests", p.done, of)
	if p.failed > 0 {
		text += fmt.Sprintf(", %d failed", p.failed)
	}
	if p.done == 0 {
		return fmt.Sprintf("%s, none answered for %v (timeout %v)", text, took.Round(time.Second), timeout)
	}
	rate := float64(p.done) / took.Seconds()
	left := time.Duration(float64(of-p.done) / rate * float64(time.Second))
	return fmt.Sprintf("%s, %.3g/s, %v left", text, rate, left.Round(time.Second))
}

// report says how far the requests are, each second, until it is stopped.
func (b *benchmark) report(ctx context.Context) (stop func()) {
	if b.Progress == nil {
		return func() {}
	}
	end := concurrent.Every(ctx, time.Second, func(context.Context) {
		if line := b.asked.line(b.asks.Requests, b.asks.Timeout); line != "" {
			b.Progress(line)
		}
	})
	return func() {
		end()
		b.Progress("")
	}
}
