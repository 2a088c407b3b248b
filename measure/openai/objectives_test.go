package openai

import (
	"math"
	"slices"
	"testing"
	"time"

	"llmprof/measure/result"
)

func TestParseSLO(t *testing.T) {
	s, err := ParseSLO(" ttft=500ms, TPOT=0.05s,ttlt=1m")
	if err != nil || *s.TTFT != 500*time.Millisecond || *s.TPOT != 50*time.Millisecond || *s.TTLT != time.Minute {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := ParseSLO(" "); err != nil || s != (SLO{}) {
		t.Errorf("%+v, %v", s, err)
	}
	for text, want := range map[string]string{
		"tftt=1s": `"tftt" is no time that has a limit`, "ttft=500": "with its unit, as 500ms", "ttft=-1s": "above 0", "ttft": "above 0",
		"tpot=1s,tpot=2s": "tpot has two limits", "e2e=1s,ttft=x": "ttft=\"x\"",
	} {
		if _, err := ParseSLO(text); !says(err, want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Of ten requests one fails, and of the others one keeps each limit but one.
func TestGoodput(t *testing.T) {
	at := func(first, last float64, n int) result.Record {
		return result.Record{FirstTokenS: &first, LastTokenS: &last, Generated: &n, Chunks: n}
	}
	s := &result.Serving{Duration: 4, Records: []result.Record{
		at(0.1, 1.0, 10), at(0.6, 1.0, 10), at(0.1, 1.9, 10), at(0.1, 3.0, 30), at(0.2, 0.2, 1),
		{Failure: Timeout, FirstTokenS: new(0.1), LastTokenS: new(0.2)}, {FirstTokenS: new(0.1), LastTokenS: new(0.2), Chunks: 2},
	}}
	for text, want := range map[string]int{"ttft=500ms": 5, "tpot=100ms": 4, "ttlt=2s": 5, "ttft=500ms,tpot=100ms,ttlt=2s": 2} {
		slo, err := ParseSLO(text)
		if err != nil {
			t.Fatal(err)
		}
		g := slo.goodput(s)
		if g.Good != want || g.Share != float64(want)/7 || g.PerSecond != float64(want)/4 {
			t.Errorf("%s: %+v, want %d", text, g, want)
		}
	}
	if g := (SLO{}).goodput(s); g != nil {
		t.Errorf("no limit: %+v", g)
	}
}

// A percentile is that of all requests with the failed ones last, by sorting them
// as so many very long times.
func TestAdjusted(t *testing.T) {
	for _, failed := range []int{0, 1, 2, 10, 11, 50, 51, 101} {
		s := &result.Serving{}
		var all []float64
		for i := range 101 {
			r := result.Record{FirstTokenS: new(float64(i)), LastTokenS: new(float64(2 * i))}
			x := float64(i)
			if i%101 < failed { // those that would have been fastest
				r.Failure, x = Timeout, 1e9
			}
			all = append(all, x)
			s.Records = append(s.Records, r)
		}
		slices.Sort(all)
		a := adjusted(s)
		for p, got := range map[int]*float64{50: a.TTFT.P50, 90: a.TTFT.P90, 95: a.TTFT.P95, 99: a.TTFT.P99} {
			want := all[p]
			if (got == nil) != (want == 1e9) || got != nil && math.Abs(*got-want) > 1e-9 {
				t.Errorf("%d failed, p%d: %v, want %v", failed, p, got, want)
			}
		}
		if a.TTLT.P50 != nil && *a.TTLT.P50 != 2**a.TTFT.P50 {
			t.Errorf("TTLT %v", *a.TTLT.P50)
		}
	}
}

// The time of a whole request goes by the name that simulations and plans print too.
func TestSLOOfE2E(t *testing.T) {
	a, err := ParseSLO("ttft=1s,e2e=10s")
	if err != nil || a.TTLT == nil || *a.TTLT != 10*time.Second {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := ParseSLO("e2e=10s,ttlt=9s"); err == nil {
		t.Error("two limits of one time are taken")
	}
}
