package engine_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
)

// TestMaxBatchOfEngines holds that a batch fits if it is no larger than the largest one that does, that there is a shortfall where it does
// not fit and only there unless the engine runs fewer at once, and that longer prompts and answers leave no room for a larger one: by each
// engine's own pages, pools of states and profiles. LLMPROF_TEST_LONG=1 draws more.
func TestMaxBatchOfEngines(t *testing.T) {
	d := rand.New(rand.NewPCG(48, 1))
	upTo := func(most float64) int { return int(math.Exp(d.Float64() * math.Log(most))) }
	all, gpus := casetest.Models(t), casetest.GPUs(t)
	engines := append(engine.Names(), "sglang@0.5.23", "vllm@0.19.0", "vllm@0.25.1")
	wrong := 0
	for n, count := 0, testkit.Cases(10_000, 200_000); n < count && wrong < 20; {
		c := &analytic.Case{Model: all[d.IntN(len(all))], Machine: casetest.Machine(t, gpus[d.IntN(len(gpus))], engines[d.IntN(len(engines))])}
		names := models.SchemeNames()
		c.Scheme = casetest.Scheme(t, names[d.IntN(len(names))], c.Machine.GPU)
		c.Parallel = analytic.Parallelism{TP: 1 << d.IntN(4), PP: 1 + d.IntN(2), GPUsPerNode: 8}
		c.Workload = analytic.Workload{Batch: 1, PromptLen: 1, GenLen: 1}
		p, err := analytic.NewPredictor(c)
		if err != nil {
			continue
		}
		for range 10 {
			n++
			w := analytic.Workload{Batch: upTo(20000), PromptLen: upTo(300000), GenLen: upTo(20000)}
			if why := contradicts(p, w, upTo(1000)); why != "" {
				t.Errorf("%s on %s, %s, %s, %+v, %+v: %s", c.Model.Name, c.Machine.GPU.Key, c.Machine.Engine.Profile().Name,
					c.Scheme.Name, c.Parallel, w, why)
				wrong++
				break
			}
		}
	}
}

// contradicts is what of a workload's memory contradicts the largest batch; "" if nothing does.
func contradicts(p *analytic.Predictor, w analytic.Workload, more int) string {
	m := p.Memory(&w)
	for _, batch := range []int{w.Batch, m.MaxBatch, m.MaxBatch + 1} {
		if batch == 0 || batch > math.MaxInt32 {
			continue
		}
		other := w
		other.Batch = batch
		switch n := p.Memory(&other); {
		case n.Fits() != (batch <= m.MaxBatch):
			return fmt.Sprintf("batch %d fits: %v, max batch %d", batch, n.Fits(), m.MaxBatch)
		case n.Fits() == (n.Short() > 0) && (n.Limit == 0 || batch <= n.Limit):
			return fmt.Sprintf("batch %d fits: %v, %v short", batch, n.Fits(), n.Short())
		case n.MaxBatch != m.MaxBatch:
			return fmt.Sprintf("max batch %d, of batch %d %d", m.MaxBatch, batch, n.MaxBatch)
		}
	}
	longer, answered := w, w
	longer.PromptLen += more
	answered.GenLen += more
	if n := p.Memory(&longer); n.MaxBatch > m.MaxBatch {
		return fmt.Sprintf("max batch %d, with %d more tokens of prompt %d", m.MaxBatch, more, n.MaxBatch)
	}
	if n := p.Memory(&answered); n.MaxBatch > m.MaxBatch {
		return fmt.Sprintf("max batch %d, with %d more generated tokens %d", m.MaxBatch, more, n.MaxBatch)
	}
	return ""
}
