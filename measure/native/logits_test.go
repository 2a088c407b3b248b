package native

import "llmprof/measure/native/cuda"

// scores are the scores that the last Prefill or Step chose from, for the engine's part of the
// vocabulary.
func (e *Engine) scores() ([][]float32, error) {
	n := e.shape.tokens
	flat := make([]float32, e.opt.Batch*n)
	if err := e.s.Sync(); err != nil {
		return nil, err
	}
	if err := cuda.Download(e.dev, flat, e.b.logits); err != nil {
		return nil, err
	}
	out := make([][]float32, e.opt.Batch)
	for i := range out {
		out[i] = flat[i*n : (i+1)*n]
	}
	return out, nil
}

// Logits are the scores of an engine with the whole model.
func (e *Engine) Logits() ([][]float32, error) { return e.scores() }

// Logits are the scores of all ranks, side by side.
func (t *Team) Logits() ([][]float32, error) {
	parts := make([][][]float32, t.Ranks())
	err := t.Each(func(rank int, e *Engine) (err error) {
		parts[rank], err = e.scores()
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([][]float32, len(parts[0]))
	for i := range out {
		for _, p := range parts {
			out[i] = append(out[i], p[i]...)
		}
	}
	return out, nil
}
