package view

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"llmprof/plots/render"
	"llmprof/roofline"
	"llmprof/unit"
)

// finite is a pointer to v, or nil if it is no number.
func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// Some leaves a cell empty where there is nothing of it.
func Some[Q unit.FLOPs | unit.Bytes | unit.Seconds](q Q) any {
	if q == 0 {
		return ""
	}
	return q
}

// Rate is a number of tokens a second in four digits.
func Rate(v float64) string {
	decimals := 0
	for limit := 999.95; v < limit && decimals < 3; limit /= 10 {
		decimals++
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// trimFloat is a number with the decimals that it has, at most one.
func trimFloat(v float64) string {
	if v == float64(int64(v)) {
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// PaintedBound is a bound in its colour.
func PaintedBound(b roofline.Bound) render.Painted {
	colors := [...]render.Color{render.Compute, render.Memory, render.Network, render.Launch}
	return render.Painted{Value: b, Color: colors[int(b)%len(colors)]}
}

// Known is q, or nil if it is not known.
func Known[Q any](q Q, ok bool) any {
	if !ok {
		return nil
	}
	return q
}

// Cell is nil where there is no value.
func Cell[T any](v *T) any {
	if v == nil {
		return nil
	}
	return *v
}

// as converts a figure to a quantity of the unit T. The result is nil where there is no figure.
func as[T ~float64](v *float64) any {
	if v == nil {
		return nil
	}
	return T(*v)
}

// orUnknown is a value as text, "not known" for the zero value.
func orUnknown[T comparable](v T) string {
	var zero T
	if v == zero {
		return "not known"
	}
	return fmt.Sprint(v)
}

// joined puts a list into one cell; it is nil for an empty list.
func joined(list []string) any {
	if len(list) == 0 {
		return nil
	}
	return strings.Join(list, " ")
}

// digits is a number that people read with four significant digits.
type digits float64

// String is the number in at most four digits.
func (d digits) String() string { return fmt.Sprintf("%.4g", float64(d)) }

// times is a number of GPUs of one kind, as "8 × H100".
func times(n int, name string) string {
	if n == 1 {
		return name
	}
	return fmt.Sprintf("%d × %s", n, name)
}

// judged is a good word where something holds, and else a bad one.
func judged(holds bool, good, bad string) render.Painted {
	if holds {
		return render.Painted{Value: good, Color: render.Good}
	}
	return render.Painted{Value: bad, Color: render.Bad}
}

// named is a value and what it is called.
type named[T any] struct {
	name string
	of   T
}
