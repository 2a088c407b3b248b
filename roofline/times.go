package roofline

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"llmprof/unit"
)

// Times is how long a kernel keeps each resource busy.
type Times [NumResources]unit.Seconds

// Compute is the time of the arithmetic: matrix and vector units work side by side.
func (t *Times) Compute() unit.Seconds { return unit.Larger(t[Matrix], t[Vector]) }

// both is what arithmetic and memory traffic take together: √(greater² + exposed × lesser² + chain²). They
// hide each other wholly where exposed is 0. It is 1 where a block has few stages of weights in
// flight; at 3 nothing hides where both take as long. The chain of a block's steps shows as far as
// the arithmetic and the traffic of all blocks are not longer.
func (t *Times) both(exposed float64) unit.Seconds {
	compute, memory, chain := float64(t.Compute()), float64(t[Memory]), float64(t[Chain])
	if exposed == 0 && chain == 0 {
		return unit.Seconds(unit.Larger(compute, memory))
	}
	greater, lesser := unit.Larger(compute, memory), unit.Smaller(compute, memory)
	return unit.Seconds(math.Sqrt(greater*greater + exposed*lesser*lesser + chain*chain))
}

// overlapped is the time of a kernel whose arithmetic and memory traffic hide each other but for exposed.
func (t *Times) overlapped(exposed float64) unit.Seconds {
	return t[Fixed] + t[Serial] + unit.Larger(t.both(exposed), t[Network])
}

// share is the part of the kernel's time that resource r accounts for: its
// derivative by the time of r, so that the parts add up.
func (t *Times) share(r Resource, exposed float64) float64 {
	both := t.both(exposed)
	switch compute := t.Compute(); {
	case r == Fixed || r == Serial:
		return 1
	case r == Network || t[Network] > both:
		if r == Network && t[r] > both {
			return 1
		}
	case r == Chain && both > 0:
		return float64(t[r] / both)
	case r != Memory && t[r] < compute || both == 0: // the other units of arithmetic are busy for longer
	case (r == Memory) == (t[Memory] > compute):
		return float64(t[r] / both)
	default:
		return exposed * float64(t[r]/both)
	}
	return 0
}

// Bound says which resource a time is waiting for.
type Bound uint8

// The bounds.
const (
	ByCompute Bound = iota
	ByMemory
	ByNetwork
	ByLaunch
	NumBounds
)

var boundNames = [NumBounds]string{"compute", "memory", "network", "launch"}

// String names the bound as the field does, without "-bound".
func (b Bound) String() string { return boundNames[b] }

// Texts are the names of all bounds.
func (Bound) Texts() []string { return boundNames[:] }

// MarshalText writes the name of the bound.
func (b Bound) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads the name of a bound.
func (b *Bound) UnmarshalText(text []byte) error {
	i := slices.Index(boundNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("%.40q is no bound: want one of %s", text, strings.Join(boundNames[:], ", "))
	}
	*b = Bound(i)
	return nil
}

// Bound is the resource that takes most of the time.
func (t *Times) Bound() Bound {
	b, most := ByCompute, t.Compute()
	if m := t[Memory] + t[Serial]; m > most {
		b, most = ByMemory, m
	}
	if t[Network] > most {
		b, most = ByNetwork, t[Network]
	}
	if t[Fixed]+t[Chain] > most {
		if t[Network] > 0 {
			return ByNetwork // the latency of the link, not of a launch
		}
		return ByLaunch
	}
	return b
}
