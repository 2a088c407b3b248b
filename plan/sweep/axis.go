package sweep

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"llmprof/deployment"
)

// An Axis is a setting with the values that it takes in turn.
type Axis struct {
	Key    string
	Name   string // name by which the setting was given
	Values []Value
}

// A Value is one of an axis: as it was given, and what it does to a request.
type Value struct {
	Text string
	Set  func(*deployment.Request)
}

// maxValues is the most values of one axis.
const maxValues = 1 << 20

// List splits a list at its commas.
func List(text string) ([]string, error) {
	var all []string
	for v := range strings.SplitSeq(text, ",") {
		if v = strings.TrimSpace(v); v == "" {
			return nil, fmt.Errorf("%.60q has an empty value: want a list as a,b,c", text)
		}
		all = append(all, v)
	}
	return all, nil
}

// Range expands a list of whole numbers and of ranges of them: "1..256" has every number,
// "1..256x2" doubles from the first up to the last, "0..1024+128" adds. Number reads
// one of them.
func Range(text string, number func(string) (int, error)) ([]string, error) {
	list, err := List(text)
	if err != nil {
		return nil, err
	}
	whole := numerals[int]{number, strconv.Itoa, func(n int) int { return n }}
	var all []string
	for _, item := range list {
		some, err := whole.expand(item)
		if err != nil {
			return nil, err
		}
		if all = append(all, some...); len(all) > maxValues {
			return nil, fmt.Errorf("%.60q has more than %d values", text, maxValues)
		}
	}
	return all, nil
}

// Values expands a list in which ranges of decimal numbers may stand beside other values: "0.5..0.9+0.1"
// adds, "0.25..8x2" doubles, "1..4" has the whole numbers.
func Values(text string) ([]string, error) {
	list, err := List(text)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, item := range list {
		some := []string{item}
		if first, _, ok := strings.Cut(item, ".."); ok {
			if _, failed := decimal(first); failed == nil {
				some, err = numerals[float64]{decimal, digits, rounded}.expand(item)
			}
		}
		if err != nil {
			return nil, err
		}
		if all = append(all, some...); len(all) > maxValues {
			return nil, fmt.Errorf("%.60q has more than %d values", text, maxValues)
		}
	}
	return all, nil
}

// decimal reads a decimal number.
func decimal(text string) (float64, error) {
	n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, fmt.Errorf("%.40q is not a number", text)
	}
	return n, nil
}

// digits spells a decimal number, without what a sum of such numbers has beyond them.
func digits(n float64) string { return strconv.FormatFloat(n, 'g', 12, 64) }

func rounded(n float64) float64 {
	n, _ = strconv.ParseFloat(digits(n), 64) // as it was spelt
	return n
}

// Numerals are how numbers of a range are read, spelt, and rounded to what is spelt.
type numerals[T int | float64] struct {
	read  func(string) (T, error)
	spell func(T) string
	round func(T) T
}

// A progression is a range of numbers.
type progression[T int | float64] struct {
	from, to T
	next     func(T) T
}

// expand expands one item of a list.
func (n numerals[T]) expand(item string) ([]string, error) {
	first, rest, ok := strings.Cut(item, "..")
	if !ok {
		one, err := n.read(item)
		if err != nil {
			return nil, fmt.Errorf("%.60q: %w", item, err)
		}
		return []string{n.spell(one)}, nil
	}
	p, err := n.progression(first, rest)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%.60q: %w", item, err)
	case p.from > p.to:
		return nil, fmt.Errorf("%.60q ends before it begins", item)
	case p.next(p.from) <= p.from:
		return nil, fmt.Errorf("%.60q never comes to its end: want a step as in 1..256x2 or 0..1024+128", item)
	}
	var all []string
	for at := p.from; at <= p.to; at = p.next(at) {
		if all = append(all, n.spell(at)); len(all) > maxValues {
			return nil, fmt.Errorf("%.60q has more than %d values", item, maxValues)
		}
		if p.next(at) <= at { // overflow
			break
		}
	}
	return all, nil
}

// progression reads a range: its first number, and its last with a step behind it.
func (n numerals[T]) progression(first, rest string) (p progression[T], err error) {
	step, last := T(1), rest
	p.next = func(at T) T { return n.round(at + step) }
	if i := strings.LastIndexAny(rest, "x*+"); i > 0 && !exponent(rest, i) {
		if step, err = n.read(rest[i+1:]); err != nil {
			return p, err
		}
		if last = rest[:i]; rest[i] != '+' {
			p.next = func(at T) T { return n.round(at * step) }
			if step <= 1 {
				return p, fmt.Errorf("want a factor above 1, as in 1..256x2")
			}
		}
	}
	if p.from, err = n.read(first); err == nil {
		p.to, err = n.read(last)
	}
	return p, err
}

// exponent reports whether a plus is that of 1e+3.
func exponent(text string, at int) bool {
	return text[at] == '+' && (text[at-1] == 'e' || text[at-1] == 'E')
}
