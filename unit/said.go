package unit

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Said is a sentence with its arguments. Settings stand in it by their keys in braces, as "{tp} 0: want at least 1", so that whoever shows
// it names them as they were given: by a flag, by a key of a file, or by a field.
type Said struct {
	format string
	args   []any
}

// Say is a sentence in the words of package fmt.
func Say(format string, args ...any) Said { return Said{format, args} }

// settingName matches the key of a setting in a sentence.
var settingName = regexp.MustCompile(`\{[a-z0-9_]+\}`)

// In is the sentence with settings by the names that name gives their keys, in the arguments too.
func (s Said) In(name func(key string) string) string {
	args := make([]any, len(s.args))
	for i, a := range s.args {
		args[i] = a
		switch inner := a.(type) {
		case interface {
			In(func(string) string) string
		}:
			args[i] = errors.New(inner.In(name))
		case error:
			args[i] = errors.New(Text(inner, name))
		}
	}
	format := settingName.ReplaceAllStringFunc(s.format, func(key string) string { return name(key[1 : len(key)-1]) })
	return fmt.Errorf(format, args...).Error()
}

// String is the sentence with settings by their keys.
func (s Said) String() string { return s.In(func(key string) string { return key }) }

// Key is the key of the first setting in the sentence.
func (s Said) Key() string { return strings.Trim(settingName.FindString(s.format), "{}") }

// Arguments are what the sentence is made of.
func (s Said) Arguments() []any { return s.args }

// A Warning is what a reader has to know before trusting an estimate: a code, and a sentence that is made of its arguments.
type Warning struct {
	Code string
	Said
}

// Warn is a warning with its sentence.
func Warn(code, format string, args ...any) Warning { return Warning{code, Say(format, args...)} }

// An Error is a sentence that names settings by their keys, or by what In is given for them.
type Error struct {
	Said
	Failed bool // something went wrong for which no setting is to blame
	cause  error
}

// Error is the sentence with settings by their keys.
func (e *Error) Error() string { return e.String() }

// Unwrap returns what was wrong.
func (e *Error) Unwrap() error { return e.cause }

// Errorf is a mistake in what was asked, in the words of package fmt, with settings by their keys in braces.
func Errorf(format string, args ...any) error { return newError(false, format, args) }

// Failf is a failure that is no mistake in what was asked, in the words of package fmt, with settings by their keys in braces.
func Failf(format string, args ...any) error { return newError(true, format, args) }

func newError(failed bool, format string, args []any) error {
	e := &Error{Said: Say(format, args...), Failed: failed}
	for _, a := range args {
		if err, ok := a.(error); ok && e.cause == nil {
			e.cause = err
		}
	}
	return e
}

// Wrong is an error as a mistake in what was asked.
func Wrong(err error) error {
	if known := (*Error)(nil); err == nil || errors.As(err, &known) {
		return err
	}
	return Errorf("%w", err)
}

// Text is what an error says, with settings by the names that name gives their keys, also in the errors that it wraps.
func Text(err error, name func(key string) string) string {
	text, within := err.Error(), []error(nil)
	switch e := err.(type) { //nolint:errorlint // each error of the chain is asked by itself
	case *Error:
		return e.In(name)
	case interface{ Unwrap() error }:
		within = []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		within = e.Unwrap()
	}
	for _, inner := range within {
		if inner != nil {
			text = strings.Replace(text, inner.Error(), Text(inner, name), 1)
		}
	}
	return text
}

// OrNull is nil for a zero value, which JSON has as null.
func OrNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
