package measure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"llmprof/input"
	"llmprof/measure/engine/openai"
	"llmprof/measure/experiment"
	"llmprof/serving"
	"llmprof/serving/replay"
)

// mostPrompted bounds the tokens of all prompts of a load: they are made before it begins, so that the
// client has nothing else to do while it runs.
const mostPrompted = 1 << 28

// A planned load is requests with lengths of their own.
type planned struct {
	lengths  []openai.Length
	arrivals []time.Duration // nil unless they are of a trace
	decided  string          // what the trace was taken for
}

// plan draws the lengths of requests, or reads a trace; nil where all requests are alike.
func plan(p *experiment.Point, requests int, seed uint64) (*planned, error) {
	switch {
	case p.Load != "":
		l, err := loadOf(p)
		if err != nil {
			err = fmt.Errorf("the load %s: %w", p.Load, err)
		}
		return l, err
	case p.PromptLens == "" && p.GenLens == "":
		return nil, nil
	}
	load := serving.Load{Arrival: serving.Arrival{Kind: "constant", Rate: 1}, Prompt: serving.Fixed(p.PromptLen), Gen: serving.Fixed(p.GenLen), Requests: requests, Seed: seed}
	for text, to := range map[string]*serving.Lengths{p.PromptLens: &load.Prompt, p.GenLens: &load.Gen} {
		if text == "" {
			continue
		}
		l, err := serving.ParseLengths(text)
		if err != nil {
			return nil, err
		}
		*to = l
	}
	source, err := load.Source()
	if err != nil {
		return nil, err
	}
	return gather(source, false)
}

// loadOf reads the requests of a file.
func loadOf(p *experiment.Point) (*planned, error) {
	f, _, err := input.Open(p.Load)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := replay.Read(f, replay.Options{Speed: p.Speed, Requests: p.Requests, Unit: p.LoadUnit, Block: p.LoadBlock})
	switch {
	case errors.Is(err, replay.ErrUnit):
		return nil, fmt.Errorf("%w: give load_unit (--trace-unit)", err)
	case errors.Is(err, replay.ErrBlock):
		return nil, fmt.Errorf("%w: give load_block (--trace-block)", err)
	case err != nil:
		return nil, err
	}
	l, err := gather(t, true)
	if err == nil {
		l.decided = "the load is " + t.Decided()
	}
	return l, err
}

// gather takes all requests of a source.
func gather(s serving.Source, timed bool) (*planned, error) {
	l, tokens := &planned{}, 0
	for {
		q, ok := s.Next()
		if !ok {
			return l, s.Err()
		}
		if tokens += q.Prompt; tokens > mostPrompted {
			return nil, fmt.Errorf("the prompts of %d requests have more than %d tokens in all: give fewer --requests", len(l.lengths)+1, mostPrompted)
		}
		l.lengths = append(l.lengths, openai.Length{Prompt: q.Prompt, Gen: q.Gen, Hashes: q.Hashes, HashTokens: q.HashTokens})
		if timed {
			l.arrivals = append(l.arrivals, time.Duration(math.Round(float64(q.At)*1e9)))
		}
	}
}

// planned makes prompts of given lengths.
func (b *benchmark) planned(ctx context.Context, l *planned) ([]openai.Prompt, error) {
	longest, shared := 0, false
	for _, x := range l.lengths {
		longest, shared = max(longest, x.Prompt+x.Gen), shared || len(x.Hashes) > 0
	}
	if most := b.about.MaxLen; most > 0 && longest > most {
		return nil, fmt.Errorf("a request has %d tokens, prompt and answer: the server takes %d", longest, most)
	}
	takes, vocab, err := b.takesTokens(ctx)
	switch {
	case err != nil:
		return nil, err
	case takes:
		return openai.TokensOf(l.lengths, min(firstToken, vocab/2), vocab, b.seed), nil
	case shared:
		return nil, errors.New("prompts that share prefixes are made of tokens: want --api completions, a server that takes tokens, and a model whose vocabulary is known")
	}
	counter, err := b.counter(ctx)
	if err != nil {
		return nil, err
	}
	defer counter.Close()
	prompts := make([]openai.Prompt, 0, len(l.lengths))
	for i, x := range l.lengths {
		one := openai.RandomText(1, x.Prompt, b.seed+uint64(i))
		if err := openai.Fit(ctx, counter, one, x.Prompt); err != nil {
			return nil, err
		}
		one[0].Gen = x.Gen
		prompts = append(prompts, one[0])
	}
	return prompts, nil
}
