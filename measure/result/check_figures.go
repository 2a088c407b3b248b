package result

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"llmprof/internal/stats"
)

// signed lists the keys whose values may be below zero: differences, the lower
// ends of intervals, and temperatures in the open.
func signed(path string) bool {
	return slices.ContainsFunc([]string{"closure", "energy.net", "tpot_overhead", "temperature_c", "_low", "histogram.first", "cycle",
		"process"}, func(part string) bool {
		return strings.Contains(path, part)
	})
}

func (c *checker) numbers(path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c.numbers(path, v.Elem())
		}
	case reflect.Struct:
		if v.Type().PkgPath() == "time" {
			return
		}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			at := path
			if key != "" {
				at = strings.TrimPrefix(path+"."+key, ".")
			}
			c.numbers(at, v.Field(i))
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			return
		}
		if samples, ok := v.Interface().([]float64); ok && allFinite(samples) || v.Type().Elem().Kind() == reflect.String {
			return // there may be millions
		}
		for i := 0; i < v.Len() && len(c.found) <= mostFound; i++ {
			c.numbers(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			c.numbers(path+"."+key.String(), v.MapIndex(key))
		}
	case reflect.Float64:
		f := v.Float()
		c.hold(!math.IsNaN(f) && !math.IsInf(f, 0), "%s is %v: want a finite number", path, f)
		c.hold(!(f < 0) || signed(path), "%s is %v: it cannot be negative", path, f)
	case reflect.Int, reflect.Int64:
		c.hold(v.Int() >= 0 || signed(path), "%s is %d: it cannot be negative", path, v.Int())
	}
}

// allFinite reports whether no sample is anything but a number from 0 up.
func allFinite(samples []float64) bool {
	return !slices.ContainsFunc(samples, func(x float64) bool { return !(x >= 0 && x <= math.MaxFloat64) })
}

// times checks that each summary is that of its samples. TTFT and TTLT are of
// passes apart, whose speeds may differ: how they fit is for the closure tests.
func (c *checker) times(r *Result) {
	for _, t := range []struct {
		key   string
		times *Times
	}{{"ttft_s", r.TTFT}, {"tpot_s", r.TPOT}, {"ttlt_s", r.TTLT}, {"step_s", r.StepTime}} {
		c.summary(t.key, t.times)
	}
	for i := range r.Conditions {
		c.condition(fmt.Sprintf("conditions[%d]", i), &r.Conditions[i])
	}
}

// condition checks the summaries of clocks and the like.
func (c *checker) condition(path string, d *Condition) {
	for key, s := range map[string]*stats.Summary{
		"sm_clock_hz": d.SMClockHz, "memory_clock_hz": d.MemClockHz, "temperature_c": d.Temperature,
		"utilization": d.Utilization, "memory_utilization": d.MemoryUtil,
	} {
		if s != nil {
			at := path + "." + key
			c.hold(s.N >= 1, "%s.n is %d: want at least 1", at, s.N)
			c.hold(s.Max <= 1 || !strings.Contains(key, "utilization"), "%s.max is %v: want a share of the time, 0 to 1", at, s.Max)
			c.hold(s.Min <= s.Median && s.Median <= s.Max, "%s: its median %v is not between %v and %v", at, s.Median, s.Min, s.Max)
		}
	}
}

// summary recomputes what is said of samples that are there to see.
func (c *checker) summary(key string, t *Times) {
	if t == nil {
		return
	}
	if h := t.Histogram; h != nil {
		c.hold(len(t.Samples) == 0, "%s has %d samples and a histogram of them: want one of the two", key, len(t.Samples))
		if err := h.Holds(&t.Summary); err != nil {
			c.hold(false, "%s: %w", key, err)
		}
		return
	}
	if t.N != len(t.Samples) {
		c.hold(false, "%s.n is %d, but it has %d samples", key, t.N, len(t.Samples))
		return
	}
	want, err := stats.Describe(t.Samples)
	if err != nil {
		c.hold(false, "%s: %w", key, err)
		return
	}
	for _, f := range []struct {
		name      string
		got, want float64
	}{
		{"mean", t.Mean, want.Mean}, {"median", t.Median, want.Median}, {"min", t.Min, want.Min}, {"max", t.Max, want.Max},
		{"p5", t.P5, want.P5}, {"p25", t.P25, want.P25}, {"p75", t.P75, want.P75}, {"p90", t.P90, want.P90},
		{"p95", t.P95, want.P95}, {"p99", t.P99, want.P99},
	} {
		c.hold(agree(f.got, f.want), "%s.%s is %v, but the samples' is %v", key, f.name, f.got, f.want)
	}
}

// agree allows for another order of summation.
func agree(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b)) }

// serving holds the counts of requests and the order of their events.
func (c *checker) serving(s *Serving) {
	if s == nil {
		return
	}
	failed := 0
	for _, n := range s.Failures {
		failed += n
	}
	c.hold(s.Completed+failed == s.Requests, "serving: %d completed and %d failed are not the %d requests", s.Completed, failed, s.Requests)
	if x := s.Steady; x != nil && (x.Begin < 0 || x.Begin >= x.End || x.End > s.recorded()) {
		c.hold(false, "serving.steady_state is of requests %d to %d: there are %d", x.Begin, x.End, s.recorded())
	}
	for key, t := range map[string]*Times{"first_chunk_s": s.FirstChunk, "ttfo_s": s.TTFO, "chunk_gap_s": s.ChunkGap} {
		c.summary("serving."+key, t)
	}
	for i := range s.Records {
		r := &s.Records[i]
		events := []*float64{r.HeadersS, r.FirstChunkS, r.FirstTokenS, r.LastTokenS, r.DoneS}
		events = slices.DeleteFunc(events, func(t *float64) bool { return t == nil })
		c.hold(slices.IsSortedFunc(events, func(a, b *float64) int { return cmp.Compare(*a, *b) }),
			"serving.records[%d]: its events are out of order: headers, first chunk, first token, last token, done", i)
	}
}

// energy checks that no energy comes from no time.
func (c *checker) energy(e *Energy) {
	if e == nil {
		return
	}
	for key, w := range map[string]*Window{
		"prefill": e.Prefill, "decode": e.Decode, "request": e.Request, "idle": e.Idle, "idle_loaded": e.IdleLoaded,
	} {
		if w == nil {
			continue
		}
		c.hold(w.Seconds > 0, "energy.%s.seconds is %v: a window takes time", key, w.Seconds)
		for i := range w.Domains {
			d := &w.Domains[i]
			c.hold(d.Name != "" && d.Sensor != "", "energy.%s.domains[%d]: a domain has a name and a sensor", key, i)
			c.hold(d.Seconds > 0, "energy.%s.domains[%d].seconds is %v: want the time between its edges", key, i, d.Seconds)
		}
	}
}
