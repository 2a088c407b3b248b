// Package ask answers what the flags of the command line ask for: the settings of an
// estimate, of a server under load and of a grid, with their defaults, and the estimates
// that they come to. It knows neither terminal nor commands, so that the page, which is
// the same code compiled to WebAssembly, asks in the same words and gets the same answers.
package ask

import "fmt"

// A UsageError is a mistake in the flags.
type UsageError struct{ error }

// Unwrap returns what was wrong.
func (e UsageError) Unwrap() error { return e.error }

// Wrong is err as a UsageError.
func Wrong(err error) error { return UsageError{err} }

// Usage is a UsageError with a text of its own.
func Usage(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }
