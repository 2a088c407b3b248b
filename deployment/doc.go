// Package deployment answers requests: what a model takes on GPUs, alone or under a load. A Request is filled by flags, by the page, by a
// file or by a program alike. A Library reads what it names, each model, GPU and calibration once, and resolves it to a Deployment: a case
// with all defaults, near misses and refusals. A Deployment gives an estimate, steady states, and a server that package serving simulates.
//
// What may change: settings and figures are added, whose zero values are what is done now, and defaults follow the engines', as the
// CHANGELOG says; Open, Request, Answer, Serve and the keys of settings stay. This is the door for other programs.
package deployment

import (
	"errors"

	"llmprof/unit"
)

// An Error is a mistake in a request. Its sentence names settings by their keys, or by what In is given for them.
type Error struct {
	unit.Said
	cause error
}

// Error is the sentence with settings by their keys.
func (e *Error) Error() string { return e.String() }

// Unwrap returns what was wrong.
func (e *Error) Unwrap() error { return e.cause }

// Errorf is a mistake in a request in the words of package fmt, with settings by their keys in braces.
func Errorf(format string, args ...any) error {
	e := &Error{Said: unit.Say(format, args...)}
	for _, a := range args {
		if err, ok := a.(error); ok && e.cause == nil {
			e.cause = err
		}
	}
	return e
}

// Text is what an error says, with settings by the names that name gives their keys.
func Text(err error, name func(key string) string) string {
	if wrong := (*Error)(nil); errors.As(err, &wrong) {
		return wrong.In(name)
	}
	return err.Error()
}

// Wrong is an error as a mistake in a request.
func Wrong(err error) error {
	if known := (*Error)(nil); err == nil || errors.As(err, &known) {
		return err
	}
	return &Error{unit.Say("%w", err), err}
}
