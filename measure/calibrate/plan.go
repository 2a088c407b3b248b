package calibrate

import (
	_ "embed" // of the plan
	"encoding/json"
	"fmt"
	"sync"

	"llmprof/hardware"
	"llmprof/unit"
)

// The engines that can be calibrated.
const (
	Native       = "native"
	Transformers = "transformers"
)

// A step of a plan is points that belong together: each kind at each shape. What is of one shape follows each other, so that an engine
// that runs it is opened once. Models whose shapes it has are those of models.json.
type step struct {
	Of     string // what it stands for, for readers
	Kinds  []Kind
	Engine string // the engine that it is for; "" for all
	Ranks  int    // GPUs that take part; 0 for 1
	Shapes []Shape
	Each   []axis
}

// An axis is values of a size that shapes are repeated with.
type axis struct {
	Size string
	Of   []int
}

//go:embed plan.json
var planJSON []byte

// plans are what is timed as a whole, and for trying out whether all of it works.
var plans = sync.OnceValue(func() (all struct{ Whole, Quick []step }) {
	if err := json.Unmarshal(planJSON, &all); err != nil {
		panic(err) // a test reads it
	}
	return all
})

// shapes are those of the step, the last axis varying fastest.
func (s *step) shapes() []Shape {
	all := s.Shapes
	if len(all) == 0 {
		all = []Shape{{}}
	}
	for _, axis := range s.Each {
		var next []Shape
		for _, shape := range all {
			for _, n := range axis.Of {
				if err := json.Unmarshal(fmt.Appendf(nil, "{%q: %d}", axis.Size, n), &shape); err != nil {
					panic(err) // a test reads it
				}
				next = append(next, shape)
			}
		}
		all = next
	}
	return all
}

// A point may need at most this share of the GPU's memory, and this time in seconds at its peak.
const (
	mostBytes = 0.25
	mostTime  = 0.05
)

// plan lists what is timed for a calibration of g with an engine and up to tp GPUs.
func plan(g *hardware.GPU, dtype unit.Format, engine string, tp int, fast bool) (points []Point) {
	steps := plans().Whole
	if fast {
		steps = plans().Quick
	}
	peak, _ := g.Peak(dtype)
	for i := range steps {
		s := &steps[i]
		if s.Engine != "" && s.Engine != engine || s.Ranks > tp {
			continue
		}
		for _, shape := range s.shapes() {
			for _, kind := range s.Kinds {
				p := Point{Kind: kind, Shape: shape, DType: dtype, Ranks: max(s.Ranks, 1)}
				if kind == EagerStep {
					p.Shape.Launches = tinyLaunches(shape.Batch)
				}
				if w := p.Work(); w.Traffic() <= g.Memory.Times(mostBytes) && (kind == Sustained || w.FLOPs.Over(peak) <= mostTime) {
					points = append(points, p)
				}
			}
		}
	}
	return points
}
