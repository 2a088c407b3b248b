package models

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Published is a model's number of parameters as its publisher states it, which
// the shape must reproduce: to the last one if Exact, and to half a unit of the
// last digit of Text otherwise.
type Published struct {
	Params int64  `json:"params"`
	Exact  bool   `json:"params_exact"`
	Text   string `json:"params_published,omitempty"` // a rounded count: "46.7B"
	Source string `json:"params_source"`
}

// check reports whether the statement is complete and agrees with itself.
func (p Published) check() error {
	switch {
	case p.Params <= 0:
		return errors.New("has no published count (params)")
	case p.Source == "":
		return errors.New("has no source of its count (params_source)")
	case p.Exact && p.Text != "":
		return errors.New("has both an exact count and a rounded one (params_published)")
	case p.Exact:
		return nil
	}
	rounded, _, err := parseRounded(p.Text)
	if err != nil {
		return err
	}
	if rounded != p.Params {
		return fmt.Errorf("params is %d but params_published says %s", p.Params, p.Text)
	}
	return nil
}

// reproduce compares the count of a shape with the published one.
func (p Published) reproduce(params int64) error {
	diff := params - p.Params
	if p.Exact {
		if diff != 0 {
			return fmt.Errorf("its shape has %d parameters, published are %d (%s): %+d", params, p.Params, p.Source, diff)
		}
		return nil
	}
	_, unit, err := parseRounded(p.Text)
	if err != nil {
		return err
	}
	if 2*max(diff, -diff) > unit {
		return fmt.Errorf("its shape has %d parameters, published are %s (%s): %+d is more than rounding",
			params, p.Text, p.Source, diff)
	}
	return nil
}

// parseRounded reads a count such as "46.7B": the count, and the unit of its
// last digit.
func parseRounded(text string) (count, unit int64, err error) {
	const most = 12 // digits, well within an int64 at any scale
	bad := fmt.Errorf("params_published %q is not a count such as \"46.7B\" or \"560M\"", text)
	if text == "" {
		return 0, 0, bad
	}
	switch text[len(text)-1] {
	case 'M':
		unit = 1e6
	case 'B':
		unit = 1e9
	case 'T':
		unit = 1e12
	default:
		return 0, 0, bad
	}
	whole, fraction, _ := strings.Cut(text[:len(text)-1], ".")
	digits := whole + fraction
	if len(digits) > most || strings.ContainsAny(digits, "+-_") {
		return 0, 0, bad
	}
	for range fraction {
		if unit%10 != 0 {
			return 0, 0, bad
		}
		unit /= 10
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || n > 1e6*1e12/unit {
		return 0, 0, bad
	}
	return n * unit, unit, nil
}
