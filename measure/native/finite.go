package native

import (
	"fmt"
	"math"
	"unsafe"

	"llmprof/measure/native/cuda"
)

// A NumbersError says that a model computes with what are no numbers: NaN, or infinite.
type NumbersError struct{ Text string }

// Error is the text.
func (e *NumbersError) Error() string { return "native: " + e.Text }

// CheckNumbers checks that the scores of the last Prefill or Step, which step names, are
// numbers. Else the error names the first weight that is none, if there is one.
func (t *Team) CheckNumbers(step string) error {
	return t.Each(func(_ int, e *Engine) error { return e.checkNumbers(step) })
}

func (e *Engine) checkNumbers(step string) error {
	if err := e.s.Sync(); err != nil {
		return err
	}
	scores := make([]float32, e.shape.tokens)
	for i := range e.opt.Batch {
		if err := cuda.Download(e.dev, scores, e.b.logits.Add(4*i*len(scores))); err != nil {
			return err
		}
		n := 0
		for _, v := range scores {
			if !finite(v) {
				n++
			}
		}
		if n > 0 {
			return e.explainNumbers(fmt.Sprintf("%d of the %d scores of sequence %d after %s are NaN or infinite", n, len(scores), i, step))
		}
	}
	return nil
}

func finite(v float32) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }

// explainNumbers finds out why scores are no numbers. It reads the weights from the GPU, which takes a while.
func (e *Engine) explainNumbers(text string) error {
	for i := range e.w.tensors {
		t := &e.w.tensors[i]
		bad, err := e.badValues(t)
		if err != nil {
			return err
		}
		if bad > 0 {
			return &NumbersError{fmt.Sprintf("%s: the tensor %q has %d such values", text, t.name, bad)}
		}
	}
	format := "bf16"
	if e.shape.fp16 {
		format = "fp16, which holds no more than 65504 (--dtype bf16 has the range of float32)"
	}
	return &NumbersError{fmt.Sprintf("%s: all weights are numbers, so what is computed of them outgrows %s", text, format)}
}

// badValues counts what is no number among a tensor's values, and among the scales of its
// matrix where it is quantized.
func (e *Engine) badValues(t *tensor) (int, error) {
	at := e.w.base.Add(t.offset)
	sixteen := func(bits uint16) bool { return !finite(e.shape.float().Value(bits)) }
	if t.quant == Unquantized {
		return count(e.dev, at, t.elements(), sixteen)
	}
	scales := e.w.base.Add(int(t.scales))
	if t.quant == INT4 { // INT4 counts all matrices that lie together.
		return count(e.dev, scales, t.among*t.cols.N/groupInputs, sixteen)
	}
	const nan = 0x7f // NaN in e4m3, which has no infinity
	weights, err := count(e.dev, at, t.elements(), func(bits uint8) bool { return bits&nan == nan })
	if err != nil {
		return 0, err
	}
	rows, err := count(e.dev, scales.Add(4*t.row), t.rows.N, func(v float32) bool { return !finite(v) })
	return weights + rows, err
}

// count is how many of n values on the GPU are bad.
func count[T cuda.Number](dev *cuda.Device, at cuda.Ptr, n int, bad func(T) bool) (found int, err error) {
	const most = 1 << 23 // at a time
	width := int(unsafe.Sizeof(*new(T)))
	part := make([]T, min(n, most))
	for first := 0; first < n; first += most {
		part = part[:min(len(part), n-first)]
		if err := cuda.Download(dev, part, at.Add(first*width)); err != nil {
			return 0, err
		}
		for _, v := range part {
			if bad(v) {
				found++
			}
		}
	}
	return found, nil
}
