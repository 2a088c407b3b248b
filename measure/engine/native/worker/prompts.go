package worker

import (
	"math/rand/v2"

	"llmprof/measure/engine"
)

// randomPrompts are one batch of token ids.
func randomPrompts(l *engine.Load, vocab int) [][][]int {
	r := rand.New(rand.NewPCG(l.Seed, 0))
	batch := make([][]int, l.Batch)
	for i := range batch {
		batch[i] = make([]int, l.PromptLen)
		for k := range batch[i] {
			batch[i][k] = r.IntN(vocab)
		}
	}
	return [][][]int{batch}
}

// givenPrompts cuts the given sequences to one length and fills whole batches, starting over
// where the sequences end. It returns none where none are given.
func givenPrompts(l *engine.Load, vocab int) ([][][]int, error) {
	if len(l.Prompts) == 0 {
		return nil, nil
	}
	length := l.PromptLen
	if length == 0 {
		length = len(l.Prompts[0])
	}
	for i, p := range l.Prompts {
		switch {
		case l.PromptLen == 0 && len(p) != length:
			return nil, engine.Invalidf("prompt %d has %d tokens, prompt 0 has %d: a batch needs equal ones, so set a prompt length that all of them reach", i, len(p), length)
		case len(p) < max(length, 1):
			return nil, engine.Invalidf("prompt %d has %d tokens, %d are needed", i, len(p), max(length, 1))
		}
		for _, t := range p {
			if t < 0 || t >= vocab {
				return nil, engine.Invalidf("prompt %d has the token %d: the vocabulary has %d", i, t, vocab)
			}
		}
	}
	n := (len(l.Prompts) + l.Batch - 1) / l.Batch
	batches := make([][][]int, n)
	for i := range batches {
		for k := range l.Batch {
			batches[i] = append(batches[i], l.Prompts[(i*l.Batch+k)%len(l.Prompts)][:length])
		}
	}
	return batches, nil
}
