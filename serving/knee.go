package serving

import (
	"fmt"
	"math"
	"strconv"
)

// Search finds the largest rate between low and high that holds: it doubles from low on until a rate does not hold,
// or high is reached, and then halves the interval between the last that holds and the first that does not
// refine times, geometrically. It is 0 if low does not hold; each rate is tried once.
func Search(low, high float64, refine int, holds func(rate float64) (bool, error)) (knee float64, err error) {
	if !(low > 0 && low < high && high <= 1e6) {
		return 0, fmt.Errorf("rates from %g to %g: want two above 0, the smaller first, and at most 1e6", low, high)
	}
	good, bad := 0.0, 0.0
	for rate := low; ; {
		ok, err := holds(rate)
		switch {
		case err != nil:
			return good, err
		case ok:
			good = rate
		default:
			bad = rate
		}
		switch {
		case good == 0 || good == high || bad > 0 && refine == 0:
			return good, nil
		case bad == 0:
			rate = min(2*rate, high)
		default:
			rate = geometric(good, bad)
			refine--
		}
	}
}

// geometric is a rate between two, to three digits.
func geometric(a, b float64) float64 {
	rate, _ := strconv.ParseFloat(strconv.FormatFloat(math.Sqrt(a*b), 'g', 3, 64), 64)
	return rate
}

// A Light is the medians of a light load, beside which others are called saturated.
type Light struct{ TTFT, TPOT float64 }

// Limits of a load that is not saturated, where no SLO says what it has to hold.
const (
	LongerTTFT = 5   // times the median TTFT of the lightest load
	LongerTPOT = 2   // times its median TPOT
	Within     = 0.9 // share of the requests that have to be within an SLO
)

// Holds reports whether medians are those of a load that is not saturated. The first load that is asked about is the lightest.
func (l *Light) Holds(ttft, tpot float64) bool {
	if *l == (Light{}) {
		*l = Light{ttft, tpot}
	}
	return ttft <= LongerTTFT*l.TTFT && (l.TPOT == 0 || tpot <= LongerTPOT*l.TPOT)
}
