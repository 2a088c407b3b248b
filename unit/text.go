package unit

import (
	"math"
	"strconv"
	"strings"
)

// A kind is what text says of a quantity. Printing uses the first symbol.
type kind struct {
	noun    string // noun in errors: "a data rate"
	example string // example in errors: "3.35 TB/s"
	symbols []symbol
	least   int  // exponent of the least prefix: -9 is nano
	most    int  // exponent of the greatest prefix: 12 is tera
	whole   bool // counts things, so that 512 is not 512.0
	binary  bool // may be written with KiB, MiB, ...
}

// A symbol is one way to write the unit, worth this many of the SI one.
type symbol struct {
	text  string
	worth float64
}

// digits is how many significant digits people are shown: times repeat to about
// three, and a fourth keeps the rounding out of the third.
const digits = 4

// String is the quantity for people: four significant digits and a decimal
// prefix, as "4.505 ms" or "3.350 TB/s". Programs get plain numbers from JSON.
func (f FLOPs) String() string          { return flops.format(float64(f)) }
func (r FLOPsPerSec) String() string    { return flopsPerSec.format(float64(r)) }
func (b Bytes) String() string          { return bytes.format(float64(b)) }
func (r BytesPerSec) String() string    { return bytesPerSec.format(float64(r)) }
func (s Seconds) String() string        { return seconds.format(float64(s)) }
func (h Hertz) String() string          { return hertz.format(float64(h)) }
func (w Watts) String() string          { return watts.format(float64(w)) }
func (j Joules) String() string         { return joules.format(float64(j)) }
func (d Dollars) String() string        { return "$" + cents(float64(d)) }
func (p DollarsPerHour) String() string { return "$" + cents(float64(p)) + "/h" }

// cents is an amount of money with two decimals, or below a dollar with three digits.
func cents(v float64) string {
	if text := strconv.FormatFloat(v, 'g', 3, 64); v > 0 && v < 1 && len(text) >= len("0.12") {
		return text
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// Binary is b with a binary prefix, as "74.51 GiB".
func (b Bytes) Binary() string {
	v, prefix := math.Abs(float64(b)), ""
	for _, p := range []string{"Ki", "Mi", "Gi", "Ti", "Pi", "Ei"} {
		// From 1023.5 up, four digits would print 1024.
		if v < 1023.5 || math.IsNaN(v) || math.IsInf(v, 0) {
			break
		}
		v, prefix = max(v, 1024)/1024, p
	}
	number := Significant(v, digits)
	if prefix == "" {
		number = trim(number)
	}
	if b < 0 {
		number = "-" + number
	}
	return number + " " + prefix + "B"
}

// Count is a number of things (parameters, tokens) in three digits as the field
// writes them: "8.03B", "124M", "671B".
func Count(n float64) string {
	if n == 0 || math.IsNaN(n) || math.IsInf(n, 0) {
		return plain(n)
	}
	if n == math.Trunc(n) && math.Abs(n) < 1000 {
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	sign, ds, exp := split(n, 3)
	group := min(max(exp/3, 0), 4)
	return sign + place(ds, exp-3*group) + []string{"", "K", "M", "B", "T"}[group]
}

// format prints v with a prefix chosen after rounding, so that 999.96 is
// "1.000 k" and never "1000.0".
func (k kind) format(v float64) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return plain(v) + " " + k.symbols[0].text
	}
	sign, ds, exp := split(v, digits)
	group := 3 * int(math.Floor(float64(exp)/3))
	if exp < k.least || exp >= k.most+6 {
		return Significant(v, digits) + " " + k.symbols[0].text
	}
	group = min(max(group, k.least), k.most)
	number := place(ds, exp-group)
	if k.whole && group == 0 {
		number = trim(number)
	}
	return sign + number + " " + prefixOf(group) + k.symbols[0].text
}

// split rounds v to n digits: v is sign 0.d1d2d3... times 10 to the exp+1.
func split(v float64, n int) (sign, ds string, exp int) {
	s := strconv.FormatFloat(math.Abs(v), 'e', n-1, 64)
	mantissa, e, _ := strings.Cut(s, "e")
	exp, _ = strconv.Atoi(e) // FormatFloat wrote it
	if v < 0 {
		sign = "-"
	}
	return sign, strings.Replace(mantissa, ".", "", 1), exp
}

// place sets the point in ds, the first digit of which is worth 10 to the exp.
func place(ds string, exp int) string {
	switch {
	case exp < 0:
		return "0." + strings.Repeat("0", -exp-1) + ds
	case exp < len(ds)-1:
		return ds[:exp+1] + "." + ds[exp+1:]
	}
	return ds + strings.Repeat("0", exp-len(ds)+1)
}

// trim drops the zeros after the point of a number that came out whole.
func trim(number string) string {
	if whole, ok := strings.CutSuffix(strings.TrimRight(number, "0"), "."); ok {
		return whole
	}
	return number
}

// Significant is v to n digits, in scientific notation where it must be.
func Significant(v float64, n int) string {
	if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return plain(v)
	}
	sign, ds, exp := split(v, n)
	if exp < -4 || exp >= 9 {
		return strconv.FormatFloat(v, 'e', n-1, 64)
	}
	return sign + place(ds, exp)
}

// plain is a number that has no digits to round. Adding 0 makes -0 a 0.
func plain(v float64) string { return strings.TrimPrefix(strconv.FormatFloat(v+0, 'g', -1, 64), "+") }

// prefixes are the decimal prefixes from 10 to the -12 to 10 to the 18.
var prefixes = [...]string{"p", "n", "µ", "m", "", "k", "M", "G", "T", "P", "E"}

// prefixOf is the decimal prefix worth 10 to the exp, a multiple of 3.
func prefixOf(exp int) string { return prefixes[exp/3+4] }

// A Rounded is a quantity with an interval, in as many digits as the interval leaves
// a meaning to: two where it is wider than ±10 %, else three. All are of one unit.
type Rounded struct{ Value, Low, High, Unit string }

// Around rounds a quantity with its interval.
func Around[Q interface {
	~float64
	kind() kind
}](v, low, high Q) Rounded {
	k := v.kind()
	n := 3
	if float64(high-low) >= 0.2*math.Abs(float64(v)) && high > low {
		n = 2
	}
	if v == 0 || math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
		return Rounded{plain(float64(v)), plain(float64(low)), plain(float64(high)), k.symbols[0].text}
	}
	_, _, exp := split(float64(v), n)
	group := min(max(3*int(math.Floor(float64(exp)/3)), k.least), k.most)
	scaled := func(q Q) string { return Significant(float64(q)/math.Pow10(group), n) }
	return Rounded{scaled(v), scaled(low), scaled(high), prefixOf(group) + k.symbols[0].text}
}

func (s Seconds) kind() kind { return seconds }
func (j Joules) kind() kind  { return joules }

// String is the value with its unit.
func (r Rounded) String() string { return r.Value + " " + r.Unit }

// Interval is the ends of the interval, without their unit.
func (r Rounded) Interval() string { return r.Low + " to " + r.High }

// String is the rate with the unit of operations on integers, as "1.979 POP/s".
func (r OPsPerSec) String() string {
	return strings.Replace(FLOPsPerSec(r).String(), "FLOP/s", "OP/s", 1)
}
