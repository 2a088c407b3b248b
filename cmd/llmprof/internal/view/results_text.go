package view

import (
	"fmt"
	"strings"
)

// Cell is nil where there is no value.
func Cell[T any](v *T) any {
	if v == nil {
		return nil
	}
	return *v
}

// as gives a figure the unit T; it is nil where there is no figure.
func as[T ~float64](v *float64) any {
	if v == nil {
		return nil
	}
	return T(*v)
}

// orUnknown is a value as text, "not known" for the zero value.
func orUnknown[T comparable](v T) string {
	var zero T
	if v == zero {
		return "not known"
	}
	return fmt.Sprint(v)
}

// joined puts a list into one cell; it is nil for an empty list.
func joined(list []string) any {
	if len(list) == 0 {
		return nil
	}
	return strings.Join(list, " ")
}

// digits formats a number with four significant digits.
func digits(v float64) string { return fmt.Sprintf("%.4g", v) }
