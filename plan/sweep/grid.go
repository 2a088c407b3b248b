package sweep

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"

	"llmprof/analytic"
)

// A Grid is the product of its axes. The last axis varies fastest, and the axes of the
// workload come after all others.
type Grid struct {
	Axes     []Axis // axes of model, GPU, engine, split and formats
	Workload [NumNumbers][]int
}

// A Number is a number of the workload.
type Number int

// The numbers, in the order in which they vary, the last fastest.
const (
	Batch Number = iota
	Prompt
	CachedPrefix
	Chunk
	Gen
	NumNumbers
)

// NumberOf finds a number by the key of its setting.
func NumberOf(key string) (Number, bool) {
	for n, name := range [...]string{"batch", "prompt_len", "cached_prefix", "chunk", "gen_len"} {
		if name == key {
			return Number(n), true
		}
	}
	return 0, false
}

// Add adds an axis. The values of a number of the workload are numbers.
func (g *Grid) Add(a Axis) error {
	n, ok := NumberOf(a.Key)
	if !ok {
		g.Axes = append(g.Axes, a)
		return nil
	}
	for _, v := range a.Values {
		x, err := strconv.Atoi(v.Text)
		if err != nil {
			return fmt.Errorf("%s: %.40q is not a whole number", a.Name, v.Text)
		}
		g.Workload[n] = append(g.Workload[n], x)
	}
	return nil
}

// Loaded reports whether the points are under a load.
func (g *Grid) Loaded() bool {
	return slices.ContainsFunc(g.Axes, func(a Axis) bool { return a.Key == "rate" || a.Key == "concurrency" })
}

// maxPoints is the most points of a grid: a year's work.
const maxPoints = 1 << 45

// Points is how many points the grid has, and how many of them share what the workload
// does not change.
func (g *Grid) Points() (all, inner uint64, err error) {
	inner = 1
	for n := range g.Workload {
		inner = mul(inner, len(g.Workload[n]))
	}
	all = inner
	for i := range g.Axes {
		all = mul(all, len(g.Axes[i].Values))
	}
	if all > maxPoints {
		return 0, 0, fmt.Errorf("the grid has more than %d points: leave out values, or sweep parts of it", uint64(maxPoints))
	}
	return all, inner, nil
}

// mul multiplies, and stays beyond maxPoints where it would overflow.
func mul(a uint64, n int) uint64 {
	if hi, lo := bits.Mul64(a, uint64(n)); hi == 0 {
		return lo
	}
	return 1 << 63
}

// at is the values of the axes at the outer index.
func (g *Grid) at(outer uint64, values []Value) {
	for i := len(g.Axes) - 1; i >= 0; i-- {
		n := uint64(len(g.Axes[i].Values))
		values[i] = g.Axes[i].Values[outer%n]
		outer /= n
	}
}

// workload is the workload at the inner index.
func (g *Grid) workload(inner uint64, w *analytic.Workload) {
	var v [NumNumbers]int
	for i := NumNumbers - 1; i >= 0; i-- {
		n := uint64(len(g.Workload[i]))
		v[i] = g.Workload[i][inner%n]
		inner /= n
	}
	w.Batch, w.PromptLen, w.CachedPrefix, w.Chunk, w.GenLen = v[Batch], v[Prompt], v[CachedPrefix], v[Chunk], v[Gen]
}

// A Shard is part I of N of a grid, from 1; the zero Shard is all of it.
type Shard struct{ I, N int }

// ParseShard reads "2/8".
func ParseShard(text string) (s Shard, err error) {
	var rest string
	if n, _ := fmt.Sscanf(text, "%d/%d%s", &s.I, &s.N, &rest); n != 2 || s.I < 1 || s.I > s.N || s.N > maxValues {
		return Shard{}, fmt.Errorf("shard %.40q: want I/N with I from 1 to N, as 2/8", text)
	}
	return s, nil
}

// Span is the share of all points, or of whatever else, that the shard has. The shards put
// together are all of them, in order.
func (s Shard) Span(all uint64) (from, to uint64) {
	if s.N == 0 {
		return 0, all
	}
	part := func(i int) uint64 {
		hi, lo := bits.Mul64(all, uint64(i))
		q, _ := bits.Div64(hi, lo, uint64(s.N))
		return q
	}
	return part(s.I - 1), part(s.I)
}
