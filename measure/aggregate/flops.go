package aggregate

import (
	"fmt"

	"llmprof/analytic/operator"
	"llmprof/measure/result"
	"llmprof/models"
)

// FLOPs counts the matrix products that a model needs for one pass of a
// process's batch.
type FLOPs func(*result.Result) (Work, error)

// Work is FLOPs and how they were counted.
type Work struct {
	Prefill, Decode    float64 // FLOPs of the prompts, and of all tokens after the first
	Method, Confidence string
}

// Analytic counts by the shape of the model in the table.
func Analytic(table *models.Table) FLOPs {
	return func(r *result.Result) (w Work, err error) {
		if !table.Has(r.Model.Name) {
			return w, fmt.Errorf("the shape of %s is not known: it is not in the table of models", r.Model.Name)
		}
		m, err := table.Model(r.Model.Name)
		if err != nil {
			return w, err
		}
		if n := r.Model.ParamsTotal; n > 0 && n != m.Params() {
			return w, fmt.Errorf("the %s that was run has %d parameters, that of the table %d: it is another model", r.Model.Name, n, m.Params())
		}
		scheme, err := models.ParseScheme("w16a16")
		if err != nil {
			return w, err
		}
		n, err := operator.Count(m, operator.Parallelism{}, scheme, &operator.Workload{
			Batch: r.Workload.Batch, PromptLen: r.Workload.PromptLen, GenLen: r.Workload.GenLen, AllLogits: r.Workload.Elana,
		})
		if err != nil {
			return w, fmt.Errorf("counting the FLOPs of %s: %w", m.Name, err)
		}
		how := m.FLOPCount()
		return Work{Prefill: float64(n.Prefill.Model), Decode: float64(n.Decode.Model), Method: how.Method, Confidence: how.Confidence}, nil
	}
}

// compute is the work and the memory of one process.
func (b *builder) compute(r *result.Result, in *InferenceMetrics) ComputeMetrics {
	c := ComputeMetrics{Precision: r.Workload.Act}
	if s := r.Sizes; s != nil {
		c.PeakMemoryMB, c.ModelMemoryMB = mebibytes(s.Peak), add(mebibytes(s.Params), mebibytes(s.Buffers))
	}
	switch {
	case b.options.FLOPs == nil:
		c.why = "FLOPs were not counted"
		return c
	case r.Serving != nil:
		c.why = "a server's requests differ in length: their FLOPs are not counted"
		return c
	case in.passes == 0:
		c.why = b.reason("ttlt_s", "no pass was run")
		return c
	}
	w, err := b.options.FLOPs(r)
	if err != nil {
		c.why = err.Error()
		return c
	}
	c.prefill, c.decode = new(w.Prefill*in.passes), new(w.Decode*in.passes)
	c.FLOPs = add(c.prefill, c.decode)
	c.FLOPsPerToken, c.FLOPsPerSecond = over(c.FLOPs, in.Total), over(c.FLOPs, in.TimeS)
	c.Method, c.Confidence = &w.Method, &w.Confidence
	return c
}
