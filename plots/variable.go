package plots

import (
	"cmp"
	"fmt"
	"math"

	"llmprof/analytic"
)

// A Variable is what a sweep varies.
type Variable string

// A plot varies one of these.
const (
	ByBatch   Variable = "batch"
	ByContext Variable = "context"
	ByTP      Variable = "tp"
	ByPower   Variable = "power limit" // of sweeps alone
	ByClock   Variable = "clock"
)

// noun is what it is called in a title.
func (v Variable) noun() string {
	return cmp.Or(map[Variable]string{ByContext: "prompt length", ByTP: "tensor parallelism"}[v], string(v))
}

// title is that of its axis.
func (v Variable) title() string {
	return map[Variable]string{
		ByBatch: "batch (sequences of a replica)", ByContext: "prompt length (tokens)", ByTP: "tensor parallelism (GPUs)",
		ByPower: "power limit of each GPU (W)", ByClock: "highest clock (MHz)",
	}[v]
}

// Set is the case with x in place of what the variable names.
func (v Variable) Set(c analytic.Case, x int) analytic.Case {
	switch v {
	case ByBatch:
		c.Workload.Batch = x
	case ByContext:
		c.Workload.PromptLen = x
	case ByTP:
		if n := expertRanks(&c.Parallel); n != nil {
			*n = *n / max(c.Parallel.TP, 1) * x
		}
		c.Parallel.TP = x
	}
	return c
}

// expertRanks is the degree of parallelism of the experts that goes along with TP, since they lie on the same ranks; nil where none does.
func expertRanks(p *analytic.Parallelism) *int {
	for _, n := range []*int{&p.EP, &p.MoETP} {
		if *n > 1 && *n%max(p.TP, 1) == 0 {
			return n
		}
	}
	return nil
}

// A Point is what charts show of one estimate of a sweep.
type Point struct {
	X          float64
	TTFT, TPOT analytic.Span
	Memory     analytic.Memory
}

func newPoint(x int, e *analytic.Estimate) Point { return Point{float64(x), e.TTFT, e.TPOT, e.Memory} }

// A Curve is the estimates of one GPU, model or setting over a variable.
type Curve struct {
	Name   string
	Points []Point
}

// Sweep answers the case at each value of the variable.
func Sweep(c *analytic.Case, v Variable, values []int, name string) (Curve, error) {
	curve := Curve{Name: name}
	for _, x := range values {
		one := v.Set(*c, x)
		e, err := analytic.Predict(&one)
		if err != nil {
			return curve, fmt.Errorf("%s at %v %d: %w", name, v, x, err)
		}
		curve.Points = append(curve.Points, newPoint(x, &e))
	}
	return curve, nil
}

// Doublings are the powers of two from lo to hi, and hi.
func Doublings(lo, hi int) (xs []int) {
	for x := max(lo, 1); x < hi; x *= 2 {
		xs = append(xs, x)
		if x > math.MaxInt/2 {
			break
		}
	}
	return append(xs, hi)
}
