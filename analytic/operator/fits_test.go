package operator_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
	"llmprof/unit"
)

// A fitting is a rank of a model whose memory an engine shares out in steps of at most budget tokens.
type fitting struct {
	name   string
	rank   operator.Footprint
	budget int
}

// fittings draws ranks of models on GPUs.
type fittings struct {
	*rand.Rand
	models  []*models.Model
	gpus    []*hardware.GPU
	engines []*analytic.Profile
	schemes []string
}

func newFittings(t *testing.T, seed uint64) *fittings {
	d := &fittings{Rand: rand.New(rand.NewPCG(seed, 5)), models: casetest.Models(t), schemes: models.SchemeNames()}
	for _, name := range casetest.GPUs(t) {
		d.gpus = append(d.gpus, casetest.GPU(t, name))
	}
	for _, name := range engine.Names() {
		d.engines = append(d.engines, casetest.Engine(t, name).Profile())
	}
	return d
}

func choose[T any](d *fittings, from []T) T { return from[d.IntN(len(from))] }

// upTo is a whole number from 1 to most, small ones as often as large ones.
func (d *fittings) upTo(most float64) int { return int(math.Exp(d.Float64() * math.Log(most))) }

func (d *fittings) next(t *testing.T) *fitting {
	for {
		m, g, e := choose(d, d.models), choose(d, d.gpus), choose(d, d.engines)
		p := operator.Parallelism{TP: choose(d, []int{1, 1, 2, 4, 8}), PP: choose(d, []int{1, 1, 2, 4}), DP: choose(d, []int{1, 1, 2}),
			EP: choose(d, []int{1, 1, 1, 2, 8})}
		s := casetest.Scheme(t, choose(d, d.schemes), g)
		s.KV = choose(d, []unit.Format{unit.NoFormat, unit.NoFormat, unit.FP8, unit.INT8})
		if operator.Check(m, p, s, nil) != nil {
			continue
		}
		r := operator.NewRank(m, p, s, nil)
		f := &fitting{
			name: fmt.Sprintf("%s on %s, %s, %s, %+v", m.Name, g.Key, e.Name, s.Name, p),
			rank: operator.NewFootprint(&r, operator.Reserve(r.Par, g.System(), e.Reserve)),
		}
		f.rank.Device = operator.DeviceMemory{Capacity: g.Capacity(), Share: 1, Static: e.Static}
		if e.Budget != nil {
			f.budget = e.Budget(g)
		}
		if e.Utilization != nil {
			f.rank.Device.Share = e.Utilization(g.Capacity())
		}
		return f
	}
}

func (d *fittings) workload() operator.Workload {
	w := operator.Workload{Batch: d.upTo(20000), PromptLen: d.upTo(300000), GenLen: d.upTo(20000), AllLogits: d.IntN(8) == 0}
	if d.IntN(4) == 0 {
		w.Chunk = d.upTo(16384)
	}
	if d.IntN(4) == 0 {
		w.CachedPrefix = d.IntN(w.PromptLen)
	}
	return w
}

func (f *fitting) memory(w operator.Workload) operator.Memory {
	return f.rank.Memory(&w, f.budget)
}

// TestMaxBatch holds that a batch fits if it is no larger than the largest one that does, also where it takes the memory to the last byte,
// and that longer prompts and answers leave no room for a larger one. LLMPROF_TEST_LONG=1 draws more.
func TestMaxBatch(t *testing.T) {
	count := testkit.Cases(10_000, 500_000)
	d := newFittings(t, 1)
	failures := 0
	for i := range count {
		f, w := d.next(t), d.workload()
		if i%2 == 0 && f.rank.Device.Share > 0 {
			f.rank.Device.Capacity = (f.memory(w).Total).Times(1 / f.rank.Device.Share) // It is what the batch needs.
		}
		if wrong := f.wrong(d, w); wrong != "" {
			t.Errorf("%s, %+v: %s", f.name, w, wrong)
			if failures++; failures > 20 {
				t.FailNow()
			}
		}
	}
}

// wrong is what contradicts the largest batch of a workload; "" if nothing does.
func (f *fitting) wrong(d *fittings, w operator.Workload) string {
	m := f.memory(w)
	for _, batch := range []int{w.Batch, m.MaxBatch, m.MaxBatch + 1, 1 + d.IntN(2*m.MaxBatch+2)} {
		if batch == 0 || batch > operator.MaxTokens {
			continue
		}
		other := w
		other.Batch = batch
		switch n := f.memory(other); {
		case n.Fits() != (batch <= m.MaxBatch):
			return fmt.Sprintf("batch %d fits: %v, max batch %d", batch, n.Fits(), m.MaxBatch)
		case n.MaxBatch != m.MaxBatch:
			return fmt.Sprintf("max batch %d, of batch %d %d", m.MaxBatch, batch, n.MaxBatch)
		case n.Fits() && !n.Unbounded && n.MaxTokens < batch*w.Context():
			return fmt.Sprintf("batch %d fits, with %d tokens of %d at most", batch, n.MaxTokens, batch*w.Context())
		}
	}
	if gen := m.MaxTokens/w.Batch - w.PromptLen; !m.Unbounded && gen > 0 && gen < operator.MaxTokens {
		longest, longer := w, w
		longest.GenLen, longer.GenLen = gen, gen+1
		if a, b := f.memory(longest), f.memory(longer); !a.Fits() || b.Fits() {
			return fmt.Sprintf("%d tokens at most, with which it fits: %v, with more: %v", m.MaxTokens, a.Fits(), b.Fits())
		}
	}
	for _, more := range []int{1, w.PromptLen, d.upTo(1000)} {
		longer, answered := w, w
		longer.PromptLen += more
		answered.GenLen += more
		if n := f.memory(longer); n.MaxBatch > m.MaxBatch || n.Total < m.Total {
			return fmt.Sprintf("max batch %d of %v, with %d more tokens of prompt %d of %v", m.MaxBatch, m.Total, more, n.MaxBatch, n.Total)
		}
		if n := f.memory(answered); n.MaxBatch > m.MaxBatch || n.Total < m.Total {
			return fmt.Sprintf("max batch %d of %v, with %d more generated tokens %d of %v", m.MaxBatch, m.Total, more, n.MaxBatch, n.Total)
		}
	}
	return ""
}
