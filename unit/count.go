package unit

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// mostCount is beyond any number of tokens or sequences that anyone can mean.
const mostCount = math.MaxInt32

// suffixes are what a number may end with: those of vLLM's flags, which take k for a
// thousand and K for 1024.
func suffixes() map[string]float64 {
	return map[string]float64{
		"": 1, "k": 1e3, "m": 1e6, "g": 1e9,
		"K": 1 << 10, "M": 1 << 20, "G": 1 << 30,
		"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30,
	}
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
	factor, ok := suffixes()[s[len(digits):]]
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
