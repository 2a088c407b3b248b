package analytic

import (
	"llmprof/footprint"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// Counts is what a case has to do and to hold, on whatever hardware and engine.
type Counts struct {
	PrefillFLOPs unit.FLOPs       // matrix products that the model needs for the prompts of one replica
	DecodeFLOPs  unit.FLOPs       // for all tokens after the first
	Prefill      roofline.Work    // what one rank of each stage does for the prompts
	Decode       roofline.Work    // what it does for all tokens after the first
	Memory       footprint.Memory // the memory of one GPU, without what CUDA, the engine and the system reserve
	Method       models.FLOPCount
}

// Count counts a case. It needs no machine.
func Count(c *Case) (n Counts, err error) {
	if err := c.checkSplit(); err != nil {
		return n, err
	}
	w := &c.Workload
	if err := w.Check(c.Parallel.Whole().MicroBatches); err != nil {
		return n, err
	}
	p := newPredictor(c, nil)
	prefill, decode := p.phases(w)
	m := float64(p.Par.MicroBatches)
	n.PrefillFLOPs, n.DecodeFLOPs = prefill.model.Times(m), decode.model.Times(m)
	n.Prefill, n.Decode = prefill.work.Scale(m), decode.work.Scale(m)
	n.Memory, n.Method = p.footprint.Memory(w, 0, footprint.Room{}), c.Model.FLOPCount()
	return n, nil
}
