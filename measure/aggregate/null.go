package aggregate

import (
	"math"

	"llmprof/internal/stats"
)

// The figures of a result may be missing, and what is computed of a missing
// one is missing too.

func add(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	return new(*a + *b)
}

func times(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	return finite(*a * *b)
}

// over is a / b; nothing is divided by nothing.
func over(a, b *float64) *float64 {
	if a == nil || b == nil || *b == 0 {
		return nil
	}
	return finite(*a / *b)
}

func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// total is the sum, missing if one is or if there are none.
func total(list []*float64) *float64 {
	if len(list) == 0 {
		return nil
	}
	sum := 0.
	for _, v := range list {
		if v == nil {
			return nil
		}
		sum += *v
	}
	return finite(sum)
}

// mean is that of a list without missing ones.
func mean(list []*float64) *float64 { return over(total(list), new(float64(len(list)))) }

func mebibytes(bytes *int64) *float64 {
	if bytes == nil {
		return nil
	}
	return new(float64(*bytes) / (1 << 20))
}

// summary is that of a sample, missing if it is empty.
func summary(xs []float64) *stats.Summary {
	s, err := stats.Summarize(xs)
	if err != nil {
		return nil
	}
	return s
}
