package render

import (
	"cmp"
	"math"
	"strconv"
)

// A scale shows the numbers of one column in one unit, so that they compare at
// a glance.
type scale struct {
	unit   string
	by     float64
	fixed  bool
	places int // decimals if fixed
}

// decimals are those of a scaled column: with its greatest value below 1000,
// six orders of magnitude show.
const decimals = 3

// scaleOf chooses the prefix that brings the greatest number of a column to
// between 1 and 1000, once it is rounded.
func scaleOf(c *Column, greatest float64, binary bool) scale {
	if c.Fixed {
		return scale{unit: c.Unit, by: cmp.Or(c.By, 1), fixed: true, places: max(c.Places, 1)}
	}
	if greatest == 0 || math.IsNaN(greatest) || math.IsInf(greatest, 0) {
		return scale{unit: c.Unit, by: 1}
	}
	if binary && c.Unit == "B" {
		return binaryScale(greatest)
	}
	prefixes := []string{"n", "µ", "m", "", "k", "M", "G", "T", "P", "E"}
	by := 1e-9
	for i, p := range prefixes {
		if greatest < 999.9995*by || i == len(prefixes)-1 {
			return scale{unit: p + c.Unit, by: by}
		}
		by *= 1000
	}
	return scale{unit: c.Unit, by: 1}
}

func binaryScale(greatest float64) scale {
	by := 1.0
	for _, p := range []string{"", "Ki", "Mi", "Gi", "Ti"} {
		if greatest < 1023.9995*by {
			return scale{unit: p + "B", by: by}
		}
		by *= 1024
	}
	return scale{unit: "PiB", by: by}
}

// text is v in the scale's unit. What rounds to nothing is not printed as
// nothing.
func (s scale) text(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return missing
	case s.fixed:
		return strconv.FormatFloat(v/s.by, 'f', s.places, 64)
	case v == 0:
		return "0"
	}
	v /= s.by
	if math.Abs(v) < 0.0005 {
		return "<0.001"
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// A parted text is a number in the three parts that columns align: before the
// point, from the point on, and the unit. A text that is no number is all whole.
type parted struct{ whole, fraction, unit string }

func part(s string) parted {
	i := digits(s)
	if i == 0 {
		return parted{whole: s}
	}
	j := i
	if j < len(s) && s[j] == '.' {
		j += 1 + digits(s[j+1:])
	}
	if j < len(s) && s[j] != ' ' {
		return parted{whole: s[:i], fraction: s[i:]} // a letter that belongs to the number: 559M
	}
	return parted{s[:i], s[i:j], s[j:]}
}

// digits counts the digits that s begins with, a sign before them included.
func digits(s string) int {
	n := 0
	for n < len(s) && (s[n] >= '0' && s[n] <= '9' || n == 0 && (s[n] == '-' || s[n] == '+' || s[n] == '<')) {
		n++
	}
	return n
}
