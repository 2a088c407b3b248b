package settings

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"llmprof/deployment"
	"llmprof/plan/sweep"
)

// Alone reports whether the value of a setting is no list.
func Alone(key string) bool {
	return slices.Contains([]string{"hardware", "offline", "lenient", "calibration"}, key)
}

// NewGrid makes the axes of the lists that were given, as text has them by their flags. Every value is tried, so that a mistake in one is
// not counted as an impossible point.
func NewGrid(text func(flag string) (list string, given bool)) (*sweep.Grid, error) {
	g, first := &sweep.Grid{}, &deployment.Request{}
	for _, group := range All {
		for f := range Fields(first) {
			if f.Group != group || f.help == "" {
				continue
			}
			a := sweep.Axis{Key: f.Key, Name: strings.TrimPrefix(Flag(f.Key), "--")}
			list, given := text(a.Name)
			_, number := sweep.NumberOf(f.Key)
			if !given && !number {
				continue
			}
			if !given {
				list = f.Tag.Get("default")
			}
			var err error
			if a.Values, err = f.values(list, given); err != nil {
				return nil, Usage("--%s: %w", a.Name, err)
			}
			if given {
				a.Values[0].Set(first)
			}
			if err := g.Add(a); err != nil {
				return nil, Wrong(err)
			}
		}
	}
	return g, InFlags(first.CheckLoad())
}

// values are those of a list, tried.
func (f *Field) values(list string, given bool) (all []sweep.Value, err error) {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	texts := []string{list}
	switch _, number := sweep.NumberOf(f.Key); {
	case Alone(f.Key):
	case t.Kind() == reflect.Int || number:
		texts, err = sweep.Range(list, func(s string) (int, error) {
			n, err := count(s)
			if err == nil && given && n < least(f.Key) {
				err = fmt.Errorf("want at least %d", least(f.Key))
			}
			return n, err
		})
	default:
		texts, err = sweep.Values(list)
	}
	for i := 0; i < len(texts) && err == nil; i++ {
		to := reflect.New(f.Type).Elem()
		v := &value{to: to}
		if err = v.Set(texts[i]); err != nil {
			return nil, fmt.Errorf("%.60q: %w", texts[i], Plain(v.Type(), err))
		}
		all = append(all, sweep.Value{Text: texts[i], Set: func(q *deployment.Request) {
			reflect.ValueOf(q).Elem().FieldByIndex(f.Index).Set(to)
		}})
	}
	return all, err
}

// least is the smallest count that a setting of whole numbers takes.
func least(key string) int {
	if slices.Contains([]string{"cached_prefix", "speculative_tokens", "prefill_replicas"}, key) {
		return 0
	}
	return 1
}

// Plain says what a flag wants whose type has errors of package strconv.
func Plain(kind string, err error) error {
	switch kind {
	case "bool":
		return errors.New("want true or false")
	case "float64":
		return errors.New("want a number, as 0.5")
	}
	return err
}

// Set sets the field of a request that a flag stands for.
func Set(q *deployment.Request, flag, text string) (known bool, err error) {
	for f, v := range Fields(q) {
		if f.Key == strings.ReplaceAll(flag, "-", "_") && f.help != "" {
			field := &value{to: v}
			if err = field.Set(text); err != nil {
				err = Plain(field.Type(), err)
			}
			return true, err
		}
	}
	return false, nil
}

// Limit is a power limit as a number of watts, or a clock as one of megahertz; 0 where it is none.
func Limit(flag, text string) float64 {
	var q deployment.Request
	if _, err := Set(&q, flag, text); err != nil {
		return 0
	}
	if q.Clock != nil {
		return float64(*q.Clock / megahertz)
	}
	return float64(*q.PowerLimit)
}
