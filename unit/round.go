package unit

import "math"

// A Rounded is a quantity with an interval, in as many digits as the interval leaves
// a meaning to: two where it is wider than ±10 %, else three. All are of one unit.
type Rounded struct{ Value, Low, High, Unit string }

// Around rounds a quantity with its interval.
func Around[Q Seconds | Joules | Dollars | Bytes](v, low, high Q) Rounded {
	k := kindOf(v)
	n := 3
	if float64(high-low) >= 0.2*math.Abs(float64(v)) && high > low {
		n = 2
	}
	if v == 0 || math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
		return Rounded{plain(float64(v)), plain(float64(low)), plain(float64(high)), k.symbols[0].text}
	}
	_, _, exp := split(float64(v), n)
	group := min(max(3*int(math.Floor(float64(exp)/3)), k.least), k.most)
	scaled := func(q Q) string { return significant(float64(q)/math.Pow10(group), n) }
	return Rounded{scaled(v), scaled(low), scaled(high), prefixOf(group) + k.symbols[0].text}
}

// kindOf is the kind of a quantity.
func kindOf(q any) kind {
	switch q.(type) {
	case Seconds:
		return seconds()
	case Joules:
		return joules()
	case Bytes:
		return bytes()
	}
	return dollars()
}

// String is the value with its unit.
func (r Rounded) String() string { return r.Value + " " + r.Unit }

// Interval is the ends of the interval, without their unit.
func (r Rounded) Interval() string { return r.Low + " to " + r.High }

// Significant is a number to n digits.
func Significant(v float64, n int) string { return significant(v, n) }
