package serving

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"llmprof/unit"
)

// A Transient says which requests of an open loop saw a server in its steady state. Those before find it
// still filling, and those at the end are answered while no more requests come.
type Transient struct {
	Begin, End int  // requests from Begin to before End count, in the order of their arrival
	Steady     bool // a steady state was reached; else all requests count

	Third, Fourth float64      // requests under way, mean over the third and the last quarter of the arrivals
	Span          unit.Seconds // between the first arrival and the last
	Answer        unit.Seconds // median E2E
}

// Method names how the length of a transient is found.
const Method = "MSER-5"

const (
	batchSize = 5  // observations of a batch: the 5 of MSER-5
	fewest    = 50 // requests of which anything can be said
)

// filling is the number of requests under way at each arrival, as means of batches.
type filling struct {
	means []float64
	sum   float64
	n     int
}

// arrive enters an arrival that finds so many requests under way.
func (f *filling) arrive(underWay int) {
	f.sum += float64(underWay)
	if f.n++; f.n%batchSize == 0 {
		f.means = append(f.means, f.sum/batchSize)
		f.sum = 0
	}
}

// length is the length of the transient in requests by MSER-5 (White, "An effective truncation heuristic for
// bias reduction in simulation output", Simulation 69, 1997; White, Cobb and Spratt, 2000): the d batches are
// left out for which the variance of the others over their number is least, so that the mean squared error of
// their mean is. There is no steady state if it is least at half of the batches or later. (Only the first half
// is searched: the last few batches of a queue are alike by chance.)
func (f *filling) length() (requests int, steady bool) {
	least, at := math.Inf(1), 0
	var sum, squares float64
	k := len(f.means)
	for d := k - 1; d >= 0; d-- {
		v := f.means[d] - f.means[k-1] // variances stay, and small numbers are summed exactly
		sum, squares = sum+v, squares+v*v
		m := float64(k - d)
		if of := (squares/m - sum/m*sum/m) / m; d <= k/2 && of <= least {
			least, at = of, d
		}
	}
	return at * batchSize, at < k/2
}

// Examine finds the transient of requests from their arrivals, in their order, and their ends. It is nil for too
// few requests to tell.
func Examine(arrivals, ends []unit.Seconds) *Transient {
	n := len(arrivals)
	if n < fewest {
		return nil
	}
	sorted := slices.Sorted(slices.Values(ends))
	times := make([]unit.Seconds, n)
	f, ended := &filling{}, 0
	for i, at := range arrivals {
		for ended < n && sorted[ended] <= at {
			ended++
		}
		f.arrive(i - ended)
		times[i] = ends[i] - at
	}
	slices.Sort(times)
	t := &Transient{Span: arrivals[n-1] - arrivals[0], Answer: times[n/2]}
	begin, steady := f.length()
	end, _ := slices.BinarySearch(arrivals, arrivals[n-1]-t.Answer)
	t.setCounted(f, begin, end, steady)
	return t
}

// setCounted sets which requests count.
func (t *Transient) setCounted(f *filling, begin, end int, steady bool) {
	t.Begin, t.End, t.Steady = begin, end, steady && end-begin >= f.n/4
	if !t.Steady {
		t.Begin, t.End = 0, f.n
	}
	k := len(f.means)
	t.Third, t.Fourth = mean(f.means[k/2:k*3/4]), mean(f.means[k*3/4:])
}

func mean(values []float64) float64 { return floats.Sum(values) / float64(len(values)) }

// Beside these a load that reaches no steady state is called overloaded.
const (
	rising = 1.15 // requests under way in the last quarter over those in the third; 1.4 if they grow from none on
	filled = 5    // times the median E2E: the arrivals last at least as long
)

// Warning says why there is no steady state; "" if there is one.
func (t *Transient) Warning() string {
	cause := "more requests come than the server answers: it is overloaded"
	switch {
	case t.Steady:
		return ""
	case t.Fourth < rising*t.Third:
		cause = "they vary too much for a run of this length; give more requests"
	case t.Span < t.Answer.Times(filled):
		cause = "the run is too short beside its answers, or the server is overloaded"
	}
	return fmt.Sprintf("no steady state is reached by %s: %.4g requests are under way in the third quarter of the arrivals and %.4g in the "+
		"last (arrivals of %v, a median E2E of %v): %s",
		Method, t.Third, t.Fourth, t.Span, t.Answer, cause)
}
