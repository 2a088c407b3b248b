// Package count lets flags of whole numbers be written as people write them.
package count

import (
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"llmprof/unit"
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

// Parse reads a whole number as people write it.
func Parse(s string) (int, error) { return unit.ParseCount(strings.TrimSpace(s)) }

// Set reads the number, or the numbers.
func (n number) Set(s string) error {
	parts := []string{s}
	if n.list {
		parts = strings.Split(s, ",")
	}
	for i, part := range parts {
		v, err := Parse(part)
		if err != nil {
			return err
		}
		parts[i] = strconv.Itoa(v)
	}
	return n.Value.Set(strings.Join(parts, ","))
}
