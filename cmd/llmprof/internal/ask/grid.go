package ask

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/pflag"

	"llmprof/sweep"
)

// Alone reports whether a flag's value is no list.
func Alone(flag string) bool {
	return slices.Contains([]string{"hardware", "offline", "lenient", "calibration"}, flag)
}

// lists are the flags of a grid: the settings of an estimate, a list each.
type lists struct {
	given func(flag string) bool
	text  func(flag string) string
	count func(text string) (int, error)
}

// NewGrid makes the axes of the lists that were given. Every value is tried, so that a
// mistake in one is not counted as an impossible point. Count reads whole numbers.
func NewGrid(given func(flag string) bool, text func(flag string) string, count func(text string) (int, error)) (g *sweep.Grid, err error) {
	o := &lists{given, text, count}
	g = &sweep.Grid{}
	if err := goTogether(given); err != nil {
		return nil, err
	}
	of := GridFlags(&Question{}, &SteadyLoad{})
	of.VisitAll(func(f *pflag.Flag) {
		if err != nil {
			return
		}
		var a sweep.Axis
		if a, err = o.axis(f); err == nil && len(a.Values) > 0 {
			err = g.Add(a)
		}
	})
	if err != nil {
		return nil, Wrong(err)
	}
	return g, nil
}

// GridFlags are the settings of "llmprof estimate" with those of a load, in the order of the axes of a grid: the
// load varies fastest of them, so that a server's steps are priced once for all loads.
func GridFlags(q *Question, l *SteadyLoad) *pflag.FlagSet {
	f := Flags(q)
	l.Service.Flags(f)
	l.loadFlags(f)
	return f
}

// axis is the values of a flag. A number of the workload that was not given has its
// default.
func (o *lists) axis(f *pflag.Flag) (a sweep.Axis, err error) {
	a.Name = f.Name
	_, number := sweep.NumberOf(f.Name)
	given := o.given(f.Name)
	text := o.text(f.Name)
	switch {
	case !given && number:
		text = f.DefValue
	case !given:
		return a, nil
	}
	switch {
	case Alone(f.Name):
		a.Values, err = []string{text}, try(f, text)
	case f.Value.Type() == "int" || number:
		a.Values, err = sweep.Range(text, func(s string) (int, error) {
			n, err := o.count(s)
			if err != nil {
				return 0, err
			}
			return n, f.Value.Set(strconv.Itoa(n))
		})
	default:
		a.Values, err = sweep.Values(text)
		for i := 0; i < len(a.Values) && err == nil; i++ {
			err = try(f, a.Values[i])
		}
	}
	if err != nil {
		return a, fmt.Errorf("--%s: %w", f.Name, err)
	}
	return a, nil
}

// try sets a flag, and says which value it is that the flag does not take.
func try(f *pflag.Flag, value string) error {
	err := f.Value.Set(value)
	if err == nil {
		return nil
	}
	switch f.Value.Type() { // types whose errors are those of package strconv
	case "bool":
		err = errors.New("want true or false")
	case "float64":
		err = errors.New("want a number, as 0.5")
	}
	return fmt.Errorf("%.60q: %w", value, err)
}
