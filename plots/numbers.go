package plots

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"llmprof/unit"
)

// finite reports whether all of xs are numbers of at least 0.
func finite(xs ...float64) bool {
	return !slices.ContainsFunc(xs, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) || x < 0 })
}

// The least and the greatest that axes show: beyond any quantity, and far
// enough from the limits of float64 to be multiplied.
const (
	leastShown = 1e-100
	mostShown  = 1e100
)

// shown reports whether a logarithmic axis can show x.
func shown(x float64) bool { return x >= leastShown && x <= mostShown }

// si is v with three digits and a decimal prefix, without trailing zeros.
func si(v float64, unit string) string {
	number, prefix := prefixed(v)
	if strings.Contains(number, ".") {
		number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
	}
	return number + " " + prefix + unit
}

// measured is si with its trailing zeros, as results are written.
func measured(v float64, unit string) string {
	number, prefix := prefixed(v)
	return number + " " + prefix + unit
}

// prefixed is v in three digits and a decimal prefix.
func prefixed(v float64) (number, prefix string) {
	if v == 0 {
		return "0", ""
	}
	prefixes := []string{"f", "p", "n", "µ", "m", "", "k", "M", "G", "T", "P", "E"}
	r, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 2, 64), 64)
	digits := int(math.Floor(math.Log10(math.Abs(r)) + 1e-9))
	group := int(math.Floor(float64(digits) / 3))
	if group < -5 || group > 6 {
		return fmt.Sprintf("%.3g", v), ""
	}
	return strconv.FormatFloat(r/math.Pow(1000, float64(group)), 'f', 2-(digits-3*group), 64), prefixes[group+5]
}

// plain is a number without a unit, and seconds a time.
func plain(v float64) string   { return fmt.Sprintf("%g", v) }
func seconds(v float64) string { return si(v, "s") }

// engineering is a figure in engineering notation: three digits and a decimal prefix, as "1.31T".
func engineering(v float64) string {
	prefixes := []string{"", "k", "M", "G", "T", "P", "E"}
	i := 0
	for v >= 999.5 && i+1 < len(prefixes) {
		v, i = v/1000, i+1
	}
	switch {
	case v >= 1e3:
		return strings.Replace(fmt.Sprintf("%.0e", v*math.Pow(1000, float64(i))), "+", "", 1)
	case v >= 99.95:
		return fmt.Sprintf("%.0f%s", v, prefixes[i])
	case v >= 9.995:
		return fmt.Sprintf("%.1f%s", v, prefixes[i])
	case v < 0.005 && v > 0:
		return "<0.01"
	}
	return fmt.Sprintf("%.2f%s", v, prefixes[i])
}

// shareText is a share of time with a digit after the point where it is small.
func shareText(share float64) string {
	switch {
	case share >= 0.0995:
		return fmt.Sprintf("%.0f %%", share*100)
	case share < 0.0005 && share > 0:
		return "<0.1 %"
	}
	return fmt.Sprintf("%.1f %%", share*100)
}

// percent is a share without digits that mean nothing.
func percent(share float64) string {
	p := 100 * share
	if p < 0.95 {
		return "<1 %"
	}
	return fmt.Sprintf("%.0f %%", math.Round(p))
}

// intensity is one in three digits or more, without an exponent where people read it.
func intensity(x float64) string {
	if x >= 100 && x < 1e6 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

// counted is a number of sequences or tokens as ticks show it.
func counted(x float64) string {
	if x < 1e6 && x == math.Trunc(x) {
		return fmt.Sprintf("%.0f", x)
	}
	digits, prefix := strings.TrimRight(unit.Count(x), "KMBT"), ""
	if t := unit.Count(x); len(t) > len(digits) {
		prefix = t[len(digits):]
	}
	if strings.Contains(digits, ".") {
		digits = strings.TrimRight(strings.TrimRight(digits, "0"), ".")
	}
	return digits + prefix
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
