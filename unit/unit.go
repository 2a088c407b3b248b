// Package unit gives each physical quantity a type that is named for the unit
// it is stored in, always the SI one, so that a value never needs a comment to
// say what it means and a sum of bytes and operations does not compile.
//
// Arithmetic within one unit is Go's own. A change of dimension is a method:
//
//	var rate unit.BytesPerSec
//	err := rate.UnmarshalText([]byte("3.35 TB/s")) // as in files
//	fmt.Println(unit.Bytes(16e9).Over(rate))       // 4.776 ms
//
// Numbers of flags, as "32k", are read by ParseNumber and ParseCount.
//
// What may change: units, formats, metrics and warnings are added; Bytes, FLOPs, Seconds, Watts, Joules, Dollars, Format, Metric, Warning,
// ParseNumber and ParseCount stay.
package unit

import (
	"math"
	"time"
)

// Quantities of work, data, time, power, energy and money.
type (
	FLOPs          float64 // floating-point (or integer) operations; a multiply-add is two
	FLOPsPerSec    float64 // rate of operations
	OPsPerSec      float64 // FLOPsPerSec of integers, which prints OP/s
	Bytes          float64 // amount of data; GB is 10^9 bytes
	BytesPerSec    float64 // data rate, of a link in one direction
	Seconds        float64 // time
	Hertz          float64 // frequency of a clock
	Watts          float64 // power
	Joules         float64 // energy
	Dollars        float64 // US dollars
	DollarsPerHour float64 // price of renting, in US dollars
)

// Over is the time that the work takes at rate r. No work takes no time at any
// rate; work at no rate takes for ever.
func (f FLOPs) Over(r FLOPsPerSec) Seconds {
	if f == 0 {
		return 0
	}
	return Seconds(float64(f) / float64(r))
}

// Over is the time that moving b takes at rate r.
func (b Bytes) Over(r BytesPerSec) Seconds {
	if b == 0 {
		return 0
	}
	return Seconds(float64(b) / float64(r))
}

// Per is the arithmetic intensity in FLOP/byte, or +Inf if nothing is moved.
func (f FLOPs) Per(b Bytes) float64 {
	if b == 0 {
		return math.Inf(1)
	}
	return float64(f) / float64(b)
}

// For is the energy that w draws in t.
func (w Watts) For(t Seconds) Joules { return Joules(float64(w) * float64(t)) }

// For is the money that p charges for t.
func (p DollarsPerHour) For(t Seconds) Dollars { return Dollars(float64(p) * float64(t) / 3600) }

// Duration is s as package time counts.
func (s Seconds) Duration() time.Duration { return time.Duration(float64(s) * float64(time.Second)) }

// Times is the quantity, n times.
func (f FLOPs) Times(n float64) FLOPs     { return FLOPs(float64(f) * n) }
func (b Bytes) Times(n float64) Bytes     { return Bytes(float64(b) * n) }
func (s Seconds) Times(n float64) Seconds { return Seconds(float64(s) * n) }
func (j Joules) Times(n float64) Joules   { return Joules(float64(j) * n) }

func (r FLOPsPerSec) Times(n float64) FLOPsPerSec { return FLOPsPerSec(float64(r) * n) }
func (r BytesPerSec) Times(n float64) BytesPerSec { return BytesPerSec(float64(r) * n) }

// Larger is the larger of two numbers. On processors without an instruction for it, and in WebAssembly, the built-in max is a
// call, which takes longer than the rest of a short function; a comparison is inlined. Of numbers that are not comparable
// it is the first.
func Larger[T ~float64](a, b T) T {
	if b > a {
		return b
	}
	return a
}

// Smaller is the smaller of two numbers, as Larger is the larger.
func Smaller[T ~float64](a, b T) T {
	if b < a {
		return b
	}
	return a
}
