package sweep

import (
	"fmt"
	"strconv"
	"strings"
)

// An Axis is a setting with the values that it takes in turn.
type Axis struct {
	Name   string
	Values []string
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
	var all []string
	for _, item := range list {
		some, err := expand(item, number)
		if err != nil {
			return nil, err
		}
		if all = append(all, some...); len(all) > maxValues {
			return nil, fmt.Errorf("%.60q has more than %d values", text, maxValues)
		}
	}
	return all, nil
}

// expand expands one item of a list.
func expand(item string, number func(string) (int, error)) ([]string, error) {
	first, rest, ok := strings.Cut(item, "..")
	if !ok {
		n, err := number(item)
		if err != nil {
			return nil, fmt.Errorf("%.60q: %w", item, err)
		}
		return []string{strconv.Itoa(n)}, nil
	}
	last, step, next := rest, 1, func(n, step int) int { return n + step }
	if i := strings.LastIndexAny(rest, "x*+"); i > 0 {
		var err error
		if step, err = number(rest[i+1:]); err != nil {
			return nil, fmt.Errorf("%.60q: %w", item, err)
		}
		if last = rest[:i]; rest[i] != '+' {
			next = func(n, step int) int { return n * step }
			if step < 2 {
				return nil, fmt.Errorf("%.60q: want a factor of at least 2, as in 1..256x2", item)
			}
		}
	}
	from, err := number(first)
	if err != nil {
		return nil, fmt.Errorf("%.60q: %w", item, err)
	}
	to, err := number(last)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%.60q: %w", item, err)
	case from > to:
		return nil, fmt.Errorf("%.60q ends before it begins", item)
	case step < 1 || next(from, step) <= from:
		return nil, fmt.Errorf("%.60q never comes to its end: want a step as in 1..256x2 or 0..1024+128", item)
	}
	var all []string
	for n := from; n <= to; n = next(n, step) {
		if all = append(all, strconv.Itoa(n)); len(all) > maxValues {
			return nil, fmt.Errorf("%.60q has more than %d values", item, maxValues)
		}
		if next(n, step) <= n { // overflow
			break
		}
	}
	return all, nil
}
