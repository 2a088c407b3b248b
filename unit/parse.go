package unit

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The kinds of quantities: how each is printed and read.
var (
	flops = kind{noun: "a number of operations", example: "15.2 TFLOP", most: 18, whole: true,
		symbols: []symbol{{"FLOP", 1}, {"FLOPs", 1}, {"OP", 1}, {"OPs", 1}}}
	flopsPerSec = kind{noun: "a rate of operations", example: "989.4 TFLOP/s", most: 18,
		symbols: []symbol{{"FLOP/s", 1}, {"FLOPs/s", 1}, {"FLOPS", 1}, {"OP/s", 1}, {"OPs/s", 1}, {"OPS", 1}}}
	bytes       = kind{noun: "an amount of memory", example: "80 GB", most: 18, whole: true, binary: true, symbols: []symbol{{"B", 1}}}
	bytesPerSec = kind{noun: "a data rate", example: "3.35 TB/s or 400 Gb/s", most: 18, binary: true,
		symbols: []symbol{{"B/s", 1}, {"b/s", 1.0 / 8}, {"bit/s", 1.0 / 8}}}
	seconds        = kind{noun: "a time", example: "4.5 ms", least: -12, symbols: []symbol{{"s", 1}}}
	hertz          = kind{noun: "a frequency", example: "1.98 GHz", most: 12, symbols: []symbol{{"Hz", 1}}}
	watts          = kind{noun: "a power", example: "700 W", least: -6, most: 9, symbols: []symbol{{"W", 1}}}
	joules         = kind{noun: "an energy", example: "1.2 kJ", least: -12, most: 12, symbols: []symbol{{"J", 1}, {"Wh", 3600}}}
	dollars        = kind{noun: "an amount of money", example: "$2.49", symbols: []symbol{{"$", 1}, {"USD", 1}}}
	dollarsPerHour = kind{noun: "a price per hour", example: "$2.49/h", symbols: []symbol{{"$/h", 1}, {"USD/h", 1}}}
)

// UnmarshalText reads a quantity that a person wrote: a number with the unit,
// with or without a prefix, or a number of the SI unit alone. A negative number
// or another quantity's unit is an error.
func (f *FLOPs) UnmarshalText(text []byte) error          { return read(f, flops, text) }
func (r *FLOPsPerSec) UnmarshalText(text []byte) error    { return read(r, flopsPerSec, text) }
func (b *Bytes) UnmarshalText(text []byte) error          { return read(b, bytes, text) }
func (r *BytesPerSec) UnmarshalText(text []byte) error    { return read(r, bytesPerSec, text) }
func (s *Seconds) UnmarshalText(text []byte) error        { return read(s, seconds, text) }
func (h *Hertz) UnmarshalText(text []byte) error          { return read(h, hertz, text) }
func (w *Watts) UnmarshalText(text []byte) error          { return read(w, watts, text) }
func (j *Joules) UnmarshalText(text []byte) error         { return read(j, joules, text) }
func (d *Dollars) UnmarshalText(text []byte) error        { return read(d, dollars, text) }
func (p *DollarsPerHour) UnmarshalText(text []byte) error { return read(p, dollarsPerHour, text) }

// UnmarshalJSON reads the number that encoding/json writes for a quantity, or a
// string as UnmarshalText does. Without it a type with UnmarshalText could not
// be read back from JSON.
func (f *FLOPs) UnmarshalJSON(data []byte) error          { return readJSON(f, flops, data) }
func (r *FLOPsPerSec) UnmarshalJSON(data []byte) error    { return readJSON(r, flopsPerSec, data) }
func (b *Bytes) UnmarshalJSON(data []byte) error          { return readJSON(b, bytes, data) }
func (r *BytesPerSec) UnmarshalJSON(data []byte) error    { return readJSON(r, bytesPerSec, data) }
func (s *Seconds) UnmarshalJSON(data []byte) error        { return readJSON(s, seconds, data) }
func (h *Hertz) UnmarshalJSON(data []byte) error          { return readJSON(h, hertz, data) }
func (w *Watts) UnmarshalJSON(data []byte) error          { return readJSON(w, watts, data) }
func (j *Joules) UnmarshalJSON(data []byte) error         { return readJSON(j, joules, data) }
func (d *Dollars) UnmarshalJSON(data []byte) error        { return readJSON(d, dollars, data) }
func (p *DollarsPerHour) UnmarshalJSON(data []byte) error { return readJSON(p, dollarsPerHour, data) }

func read[Q ~float64](q *Q, k kind, text []byte) error {
	v, err := k.parse(string(text))
	if err != nil {
		return err
	}
	*q = Q(v)
	return nil
}

func readJSON[Q ~float64](q *Q, k kind, data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		return read(q, k, []byte(s))
	}
	v := float64(*q) // null leaves it as it was
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	*q = Q(v)
	return nil
}

// parse reads a number, a space or none, and a unit or none.
func (k kind) parse(s string) (float64, error) {
	s = strings.TrimSpace(s)
	rest, before := strings.CutPrefix(s, "$")
	digits := number.FindString(rest)
	unit := strings.TrimSpace(rest[len(digits):])
	if before {
		unit = "$" + unit
	}
	v, err := strconv.ParseFloat(digits, 64)
	switch {
	case strings.HasPrefix(s, "-"):
		return 0, fmt.Errorf("%q is not %s: it is negative", s, k.noun)
	case math.IsInf(v, 0):
		return 0, fmt.Errorf("%q is not %s: it is too large", s, k.noun)
	case err != nil:
		return 0, fmt.Errorf("%q is not %s: want a number and a unit, as in %q", s, k.noun, k.example)
	case unit == "":
		return v, nil
	}
	scale, ok := k.scale(unit)
	if !ok {
		return 0, fmt.Errorf("%q is not %s: %q is not a unit of it; write it as in %q", s, k.noun, unit, k.example)
	}
	if scale == 1 { // The number stands as it was written, however many digits it has.
		return v, nil
	}
	if v *= scale; math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q is not %s: it is too large", s, k.noun)
	}
	return nearest(v), nil
}

// nearest takes back the last bit that scaling by a power of ten may add, so
// that 4.505 ms is the float that 0.004505 is.
func nearest(v float64) float64 {
	w, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 15, 64), 64)
	if err != nil {
		return v
	}
	return w
}

// number is a decimal number at the start of a text. Go's own reader would also take "0x1p4", "1_000", "inf"
// and "nan", which no data sheet writes. "2 EB" and "2EB" are exabytes; only digits make an E an exponent.
var number = regexp.MustCompile(`^[0-9]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?`)

// scale is what one of the unit is worth in the SI one. Decimal prefixes are within the range of the quantity, so
// that "mB" is not a thousandth of a byte.
func (k kind) scale(unit string) (float64, bool) {
	for _, s := range k.symbols {
		prefix, ok := strings.CutSuffix(unit, s.text)
		if !ok {
			continue
		}
		if prefix == "u" || prefix == "μ" { // the letter mu, beside the micro sign
			prefix = "µ"
		}
		if exp := 3*slices.Index(prefixes[:], prefix) - 12; k.least <= exp && exp <= k.most {
			return math.Pow10(exp) * s.worth, true
		}
		if i := strings.Index("KiMiGiTiPiEi", prefix); k.binary && s.worth == 1 && len(prefix) == 2 && i >= 0 && i%2 == 0 {
			return math.Exp2(float64(10 * (i/2 + 1))), true
		}
	}
	return 0, false
}

// mostCount is beyond any number of tokens or sequences that anyone can mean.
const mostCount = math.MaxInt32

// suffixes are what a number may end with: those of vLLM's flags, which take k for a
// thousand and K for 1024.
var suffixes = map[string]float64{
	"": 1, "k": 1e3, "m": 1e6, "g": 1e9,
	"K": 1 << 10, "M": 1 << 20, "G": 1 << 30,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30,
}

// ParseCount reads a whole number of up to 2^31 - 1, which may end with k or K or be written as 1e3.
func ParseCount(s string) (int, error) {
	v, err := ParseNumber(s)
	switch {
	case err != nil:
		return 0, errCount
	case v != math.Trunc(v):
		return 0, fmt.Errorf("want a whole number, as %.0f", math.Ceil(v))
	case math.Abs(v) > mostCount:
		return 0, fmt.Errorf("want a number of at most %d", mostCount)
	}
	return int(v), nil
}

// ParseNumber reads a decimal number without a unit, which may end with k or K or be written as 1e3.
func ParseNumber(s string) (float64, error) {
	digits := strings.TrimRight(s, "kmgKMGi")
	factor, ok := suffixes[s[len(digits):]]
	if !ok || strings.Trim(digits, "+-.0123456789eE") != "" { // neither inf nor a hexadecimal number
		return 0, errNumber
	}
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0, errNumber
	}
	return v * factor, nil
}

// These errors say what numbers look like.
var (
	errCount  = errors.New("want a whole number, as 512, 32k (32000), 32K (32768) or 1e3")
	errNumber = errors.New("want a number, as 0.5, 512, 32k (32000), 32K (32768) or 1e3")
)

// ParseTime reads a time as people and as Go write it: 4.5 ms, 1m30s.
func ParseTime(s string) (t Seconds, err error) {
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return Seconds(d.Seconds()), nil
	}
	err = t.UnmarshalText([]byte(s))
	return t, err
}
