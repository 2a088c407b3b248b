package unit

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
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
var settingName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{[a-z0-9_]+\}`) })

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
	format := settingName().ReplaceAllStringFunc(s.format, func(key string) string { return name(key[1 : len(key)-1]) })
	return fmt.Errorf(format, args...).Error()
}

// String is the sentence with settings by their keys.
func (s Said) String() string { return s.In(func(key string) string { return key }) }

// Key is the key of the first setting in the sentence.
func (s Said) Key() string { return strings.Trim(settingName().FindString(s.format), "{}") }

// Arguments are what the sentence is made of.
func (s Said) Arguments() []any { return s.args }

// A Warning is what a reader has to know before trusting an answer: a code, and a sentence that is made of its arguments.
type Warning struct {
	Code string
	Said
}

// Warn is a warning with its sentence.
func Warn(code, format string, args ...any) Warning { return Warning{code, Say(format, args...)} }
