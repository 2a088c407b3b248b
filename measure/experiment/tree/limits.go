package tree

import (
	"errors"

	"llmprof/input"
)

// Limits of one file: more than anybody writes by hand. A grid of a few lines gives
// as many points as may be run.
const (
	MostText   = 1 << 20
	deepest    = 64
	mostValues = 30_000
)

// within holds the text to the limits, as hold counts its form.
func (s *Source) within(hold func(input.Limits, string) error) error {
	err := hold(input.Limits{Bytes: MostText, Depth: deepest, Values: mostValues}, s.Text)
	if excess, ok := errors.AsType[*input.Excess](err); ok {
		return s.place(excess.Line, excess.Column, 1).Mistake("%s", excess.Problem)
	}
	return err
}

// MostCount bounds what is counted: beyond any use.
const MostCount = 1 << 30

// Whole is a number without a fraction and not below 0.
func Whole(scalar any) (uint64, bool) {
	switch v := scalar.(type) {
	case int64:
		return uint64(max(v, 0)), v >= 0
	case uint64:
		return v, true
	}
	return 0, false
}
