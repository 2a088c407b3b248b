package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// A count is a flag of a whole number, as people write it: 4096, 4k, 4K, 1e3.
type count struct{ n *int }

// Count adds a flag of a whole number.
func Count(f *pflag.FlagSet, n *int, name string, initial int, usage string) {
	CountP(f, n, name, "", initial, usage)
}

// CountP is Count with a letter.
func CountP(f *pflag.FlagSet, n *int, name, letter string, initial int, usage string) {
	*n = initial
	f.VarP(count{n}, name, letter, usage)
}

// String is the number.
func (c count) String() string {
	if c.n == nil {
		return "0"
	}
	return strconv.Itoa(*c.n)
}

// Set reads the number.
func (c count) Set(s string) error {
	n, err := ParseCount(s)
	if err == nil {
		*c.n = n
	}
	return err
}

// Type is the name that help shows.
func (c count) Type() string { return "int" }

// counts is a flag of several whole numbers.
type counts struct{ list *[]int }

// Counts adds a flag of whole numbers with commas between.
func Counts(f *pflag.FlagSet, list *[]int, name string, initial []int, usage string) {
	*list = initial
	f.Var(&counts{list}, name, usage)
}

// String is the numbers.
func (c *counts) String() string {
	if c.list == nil || len(*c.list) == 0 {
		return ""
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(*c.list), "[]"), " ", ",")
}

// Set reads "8" or "1,8,64".
func (c *counts) Set(s string) error {
	var list []int
	for _, part := range strings.Split(s, ",") {
		n, err := ParseCount(strings.TrimSpace(part))
		if err != nil {
			return err
		}
		list = append(list, n)
	}
	*c.list = list
	return nil
}

// Type is the name that help shows.
func (c *counts) Type() string { return "ints" }

// mostCount is beyond any number of tokens or sequences that a flag can mean.
const mostCount = math.MaxInt32

// suffixes are what a number may end with: those of vLLM's flags, which take k for a
// thousand and K for 1024.
var suffixes = map[string]float64{
	"k": 1e3, "m": 1e6, "g": 1e9,
	"K": 1 << 10, "M": 1 << 20, "G": 1 << 30,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30,
}

// ParseCount reads a whole number, which may end with k or K or be written as 1e3.
func ParseCount(s string) (int, error) {
	end := len(strings.TrimRight(s, "kmgKMGi"))
	factor, ok := suffixes[s[end:]]
	if !ok && end < len(s) {
		return 0, notCount(s)
	}
	if end == len(s) {
		factor = 1
	}
	if strings.Trim(s[:end], "+-.0123456789eE") != "" { // neither inf nor a hexadecimal number
		return 0, notCount(s)
	}
	v, err := strconv.ParseFloat(s[:end], 64)
	if err != nil {
		return 0, notCount(s)
	}
	v *= factor
	if v != math.Trunc(v) {
		return 0, fmt.Errorf("want a whole number, and %s is %v", s, v)
	}
	if math.Abs(v) > mostCount {
		return 0, fmt.Errorf("want a number of at most %d", mostCount)
	}
	return int(v), nil
}

func notCount(string) error {
	return fmt.Errorf("want a whole number, as 512, 32k (32000), 32K (32768) or 1e3")
}
