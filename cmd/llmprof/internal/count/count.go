// Package count reads whole numbers as people write them.
package count

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// A number is a flag of whole numbers, which people may write as 4096, 4k, 4K or 1e3.
type number struct {
	pflag.Value
	list bool // several, with commas between
}

// Lenient lets a flag of whole numbers be written as people write them.
func Lenient(f *pflag.Flag) {
	switch f.Value.Type() {
	case "int":
		f.Value = number{Value: f.Value}
	case "intSlice":
		f.Value = number{Value: f.Value, list: true}
	}
}

// Set reads the number, or the numbers.
func (n number) Set(s string) error {
	parts := []string{s}
	if n.list {
		parts = strings.Split(s, ",")
	}
	for i, part := range parts {
		v, err := Parse(strings.TrimSpace(part))
		if err != nil {
			return err
		}
		parts[i] = strconv.Itoa(v)
	}
	return n.Value.Set(strings.Join(parts, ","))
}

// mostCount is beyond any number of tokens or sequences that a flag can mean.
const mostCount = math.MaxInt32

// suffixes are what a number may end with: those of vLLM's flags, which take k for a
// thousand and K for 1024.
var suffixes = map[string]float64{
	"k": 1e3, "m": 1e6, "g": 1e9,
	"K": 1 << 10, "M": 1 << 20, "G": 1 << 30,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30,
}

// Parse reads a whole number, which may end with k or K or be written as 1e3.
func Parse(s string) (int, error) {
	end := len(strings.TrimRight(s, "kmgKMGi"))
	factor, ok := suffixes[s[end:]]
	if !ok && end < len(s) {
		return 0, errCount
	}
	if end == len(s) {
		factor = 1
	}
	if strings.Trim(s[:end], "+-.0123456789eE") != "" { // neither inf nor a hexadecimal number
		return 0, errCount
	}
	v, err := strconv.ParseFloat(s[:end], 64)
	if err != nil {
		return 0, errCount
	}
	v *= factor
	if v != math.Trunc(v) {
		return 0, fmt.Errorf("want a whole number, as %.0f", math.Ceil(v))
	}
	if math.Abs(v) > mostCount {
		return 0, fmt.Errorf("want a number of at most %d", mostCount)
	}
	return int(v), nil
}

// errCount says what a whole number looks like.
var errCount = errors.New("want a whole number, as 512, 32k (32000), 32K (32768) or 1e3")
