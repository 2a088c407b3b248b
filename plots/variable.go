package plots

import (
	"fmt"
	"math"
	"strings"

	"llmprof/analytic"
)

// A Variable is what a sweep varies.
type Variable uint8

// A plot varies one of these.
const (
	ByBatch Variable = iota
	ByContext
	ByTP
	ByPower // of sweeps alone
	ByClock
)

// String is the name of the variable.
func (v Variable) String() string {
	return [...]string{"batch", "context", "tp", "power limit", "clock"}[min(v, ByClock)]
}

// noun is what it is called in a title.
func (v Variable) noun() string {
	return [...]string{"batch", "prompt length", "tensor parallelism", "power limit", "clock"}[min(v, ByClock)]
}

// title is that of its axis.
func (v Variable) title() string {
	return [...]string{"batch (sequences of a replica)", "prompt length (tokens)", "tensor parallelism (GPUs)", "power limit of each GPU (W)",
		"highest clock (MHz)"}[min(v, ByClock)]
}

// ParseVariable finds a variable by name.
func ParseVariable(s string) (Variable, error) {
	for v := ByBatch; v <= ByTP; v++ {
		if strings.EqualFold(s, v.String()) {
			return v, nil
		}
	}
	return 0, fmt.Errorf("unknown variable %q (known: batch, context, tp)", s)
}

// Set is the case with x in place of what the variable names.
func (v Variable) Set(c analytic.Case, x int) analytic.Case {
	switch v {
	case ByBatch:
		c.Workload.Batch = x
	case ByContext:
		c.Workload.PromptLen = x
	case ByTP:
		c.Parallel.TP = x
	}
	return c
}

// A Point is one estimate of a sweep.
type Point struct {
	X        float64
	Estimate analytic.Estimate
}

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
		curve.Points = append(curve.Points, Point{float64(x), e})
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
