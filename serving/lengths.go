package serving

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/floats"

	"llmprof/unit"
)

// A Lengths draws the tokens of a prompt or of an answer.
type Lengths struct {
	Kind   string  // "fixed", "uniform", "lognormal" or "trace"
	Mean   float64 // mean of every distribution but the uniform one
	Low    float64 // least of a uniform distribution
	High   float64 // most of a uniform distribution
	Spread float64 // standard deviation over mean of lognormal and trace
	Trace  []int   // lengths of a trace, the shortest first
	File   string  // name of the trace
}

// Fixed is always n tokens.
func Fixed(n int) Lengths { return Lengths{Kind: "fixed", Mean: float64(n)} }

// Traced are lengths that were recorded, each as often as it was. File is the name of the record.
func Traced(file string, lengths []int) Lengths {
	values := make([]float64, len(lengths))
	for i, v := range lengths {
		values[i] = float64(v)
	}
	m := mean(values)
	return Lengths{Kind: "trace", Mean: m, Spread: math.Sqrt(max(floats.Dot(values, values)/float64(len(values))-m*m, 0)) / m,
		Trace: slices.Sorted(slices.Values(lengths)), File: file}
}

// errLengths says what lengths look like.
var errLengths = errors.New("want tokens from 1 up, as 1024, a range as 512..2048, a mean with a percentile as mean=2000,p95=6000, " +
	"or a mean " +
	"and its relative spread as lognormal:1024,0.8")

// ParseLengths reads "1024", "512..2048", "mean=2000,p95=6000" or "lognormal:1024,0.8". Numbers may end as those of unit.ParseNumber.
func ParseLengths(text string) (l Lengths, err error) {
	text = strings.TrimSpace(text)
	if strings.Contains(text, "=") {
		return parsePercentiles(text)
	}
	low, high, isRange := strings.Cut(text, "..")
	rest, isLog := strings.CutPrefix(text, "lognormal:")
	switch {
	case isLog:
		mean, spread, _ := strings.Cut(rest, ",")
		l = Lengths{Kind: "lognormal", Mean: parseLength(mean), Spread: parseLength(spread)}
	case isRange:
		l = Lengths{Kind: "uniform", Low: parseLength(low), High: parseLength(high)}
	default:
		l = Lengths{Kind: "fixed", Mean: parseLength(text)}
	}
	for _, v := range [...]float64{l.Mean, l.Low, l.High, l.Spread} {
		if math.IsNaN(v) || !isLog && v != math.Trunc(v) {
			return l, errLengths
		}
	}
	return l, l.Check()
}

// parseLength reads a number above 0; other text is NaN.
func parseLength(text string) float64 {
	v, err := unit.ParseNumber(strings.TrimSpace(text))
	if err != nil || !(v > 0) {
		return math.NaN()
	}
	return v
}

// Plus is the lengths with so many tokens more. Lognormal ones keep their standard deviation.
func (l Lengths) Plus(n int) Lengths {
	if n == 0 {
		return l
	}
	more := float64(n)
	l.Spread *= l.Mean / (l.Mean + more)
	switch l.Kind {
	case "uniform":
		l.Low, l.High = l.Low+more, l.High+more
	case "trace":
		l.Trace = slices.Clone(l.Trace)
		for i := range l.Trace {
			l.Trace[i] += n
		}
		fallthrough
	default:
		l.Mean += more
	}
	return l
}

// parsePercentiles reads two of the mean and percentiles of a lognormal distribution, as "mean=2000,p95=6000" and "p50=800,p99=9000". With
// s the standard deviation of the logarithm, and z that of the standard normal distribution at a percentile, the percentile is the median
// times exp(z s), and the mean the median times exp(s^2/2).
func parsePercentiles(text string) (l Lengths, err error) {
	var mean float64
	type point struct{ z, log float64 }
	var points []point
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		v := parseLength(value)
		if !(v >= 1) {
			return l, errLengths
		}
		if name == "mean" {
			mean = v
			continue
		}
		share, err := strconv.ParseFloat(strings.TrimPrefix(name, "p"), 64)
		if err != nil || !strings.HasPrefix(name, "p") || !(share > 0 && share < 100) {
			return l, errLengths
		}
		points = append(points, point{math.Sqrt2 * math.Erfinv(share/50-1), math.Log(v)})
	}
	var s, median float64
	switch {
	case mean > 0 && len(points) == 1: // log(p/mean) = z s - s^2/2, of which the smaller root is meant
		p := points[0]
		square := p.z*p.z - 2*(p.log-math.Log(mean))
		if square < 0 {
			return l, fmt.Errorf("no lognormal distribution has that percentile at that mean: at most %.4g", mean*math.Exp(p.z*p.z/2))
		}
		if s = p.z - math.Sqrt(square); p.z < 0 {
			s = p.z + math.Sqrt(square)
		}
		median = math.Log(mean) - s*s/2
	case mean == 0 && len(points) == 2:
		a, b := points[0], points[1]
		s = (b.log - a.log) / (b.z - a.z)
		median = a.log - a.z*s
	default:
		return l, errLengths
	}
	if !(s > 0) || math.IsInf(s, 1) {
		return l, errors.New("want lengths that differ, the higher percentile being the longer, and one over p50 above the mean")
	}
	round := func(v float64) float64 { return math.Round(v*1e6) / 1e6 }
	l = Lengths{Kind: "lognormal", Mean: round(math.Exp(median + s*s/2)), Spread: round(math.Sqrt(math.Expm1(s * s)))}
	return l, l.Check()
}

// MeanLength is the mean of the lengths.
func (l *Lengths) MeanLength() float64 { m, _ := l.moments(); return m }

func (l *Lengths) draw(r *rand.Rand) int {
	switch l.Kind {
	case "trace":
		return l.Trace[r.IntN(len(l.Trace))]
	case "uniform":
		return int(l.Low) + r.IntN(int(l.High)-int(l.Low)+1)
	case "lognormal":
		return int(min(max(math.Round(l.lognormal(r.NormFloat64())), 1), maxLength))
	}
	return int(l.Mean)
}

// lognormal is the length that lies so many standard deviations from the median, in the logarithm.
func (l *Lengths) lognormal(deviations float64) float64 {
	s2 := math.Log1p(l.Spread * l.Spread)
	return l.Mean * math.Exp(math.Sqrt(s2)*deviations-s2/2)
}

func (l *Lengths) moments() (mean, square float64) {
	switch l.Kind {
	case "uniform":
		n := l.High - l.Low + 1
		mean = (l.Low + l.High) / 2
		return mean, mean*mean + (n*n-1)/12
	case "lognormal", "trace":
		return l.Mean, l.Mean * l.Mean * (1 + l.Spread*l.Spread)
	}
	return l.Mean, l.Mean * l.Mean
}

// Longest is the longest of the lengths; of lognormal ones that of 999 in a thousand.
func (l *Lengths) Longest() int {
	if l.Kind == "lognormal" {
		return l.at(0.999)
	}
	return l.at(1)
}

// at is the length that a share of all are below.
func (l *Lengths) at(share float64) int { return max(int(math.Round(l.Quantile(share))), 1) }

// part is the length that a share of one of n equally likely parts of the distribution is below, the i-th one.
func (l *Lengths) part(i, n int, share float64) int { return l.at((float64(i) + share) / float64(n)) }

// stratified draws n lengths, each in the middle of one of n parts, in any order.
func (l *Lengths) stratified(n int, random *rand.Rand) []int {
	all := random.Perm(n)
	for i, part := range all {
		all[i] = l.part(part, n, 0.5)
	}
	return all
}

// Quantile is the length that a share of all are below, a whole number or not.
func (l *Lengths) Quantile(share float64) float64 {
	switch l.Kind {
	case "fixed":
		return l.Mean
	case "lognormal":
		return l.lognormal(math.Sqrt2 * math.Erfinv(2*share-1))
	case "trace":
		return float64(l.Trace[min(int(share*float64(len(l.Trace))), len(l.Trace)-1)])
	}
	return l.Low + share*(l.High-l.Low)
}

// Check returns what is wrong with the lengths, if anything is.
func (l *Lengths) Check() error { return l.check("drawn") }

// String is the lengths as the command line gives them.
func (l *Lengths) String() string {
	switch l.Kind {
	case "uniform":
		return fmt.Sprintf("%.0f..%.0f", l.Low, l.High)
	case "lognormal":
		return fmt.Sprintf("lognormal:%g,%g", l.Mean, l.Spread)
	case "trace":
		return "trace:" + l.File
	}
	return fmt.Sprintf("%.0f", l.Mean)
}

func (l *Lengths) check(what string) error {
	ok := l.Mean >= 1 && l.Mean <= maxLength
	switch l.Kind {
	case "fixed":
	case "uniform":
		if l.High < l.Low {
			return fmt.Errorf("the %s lengths end before they begin: want the smaller first, as %g..%g", what, l.High, l.Low)
		}
		ok = l.Low >= 1 && l.High >= l.Low && l.High <= maxLength
	case "lognormal":
		ok = ok && l.Spread > 0 && l.Spread <= 10
	case "trace":
		ok = ok && l.Trace[0] >= 1 && l.Longest() <= maxLength
	default:
		return fmt.Errorf("the %s lengths are %q: want fixed, uniform, lognormal or trace", what, l.Kind)
	}
	if !ok {
		return fmt.Errorf("the %s lengths are out of range: want tokens from 1 to %d, and a spread above 0 and at most 10", what, maxLength)
	}
	return nil
}

// tabled is the lengths as a table of equally likely ones where it takes long to find out each.
func (l Lengths) tabled() Lengths {
	if l.Kind != "lognormal" {
		return l
	}
	all := make([]int, 1<<12)
	for i := range all {
		all[i] = l.part(i, len(all), 0.5)
	}
	return Traced(l.File, all)
}
