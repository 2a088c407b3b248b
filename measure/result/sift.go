package result

import (
	"fmt"
	"reflect"
	"slices"
)

// Sift takes out of r what was read beside the times and cannot be, and says so: a sensor that gives one impossible
// figure, or a server whose metrics do, must not cost the times.
func Sift(r *Result) {
	bad := func(key string, part any, check func(*checker)) string {
		c := &checker{}
		c.numbers(key, reflect.ValueOf(part))
		check(c)
		if len(c.found) == 0 {
			return ""
		}
		return fmt.Sprintf("what was read cannot be: %v", c.found[0])
	}
	none := func(*checker) {}
	for _, part := range []struct {
		key   string
		check func(*checker)
		of    any
		drop  func()
	}{
		{"energy", func(c *checker) { c.energy(r.Energy) }, r.Energy, func() { r.Energy = nil }},
		{"meter", none, r.Meter, func() { r.Meter = nil }},
	} {
		if why := bad(part.key, part.of, part.check); why != "" {
			part.drop()
			r.Reasons[part.key] = why
			r.Warnings = append(r.Warnings, part.key+" is left out, since "+why)
		}
	}
	r.Conditions = slices.DeleteFunc(r.Conditions, func(d Condition) bool {
		why := bad("conditions[0]", &d, func(c *checker) { c.condition("conditions[0]", &d) })
		if why != "" {
			r.Reasons["conditions"] = why
			r.Warnings = append(r.Warnings, "the conditions of a GPU are left out, since "+why)
		}
		return why != ""
	})
	if s := r.Serving; s != nil {
		if why := bad("serving.server_metrics", s.Metrics, none); why != "" {
			s.Metrics = nil
			r.Warnings = append(r.Warnings, "the server's metrics are left out, since "+why)
		}
	}
}
