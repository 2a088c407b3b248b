package plots

import (
	"math"
	"slices"
	"strings"
	"testing"

	"llmprof/analytic/breakdown"
	"llmprof/internal/testkit"
)

// timed are the operators of a report as if they had taken so many times what is expected.
func timed(r *breakdown.Report, times float64) (all []MeasuredOperator) {
	for _, p := range []struct {
		decode bool
		lines  []breakdown.Operator
	}{{false, r.PrefillOps}, {true, r.DecodeOps}} {
		for i := range p.lines {
			l := &p.lines[i]
			all = append(all, MeasuredOperator{Name: l.Name, Decode: p.decode, FLOPs: l.FLOPs, Bytes: l.Traffic(), Observed: times * float64(
				l.Expected)})
		}
	}
	return all
}

// A measured mark is where its time puts it and never over its roof; what would be is named.
func TestRooflineMeasured(t *testing.T) {
	for name, c := range looked(t) {
		r, err := breakdown.Explain(c)
		testkit.Must(t, err)
		for _, times := range []float64{1, 2, 0.01} {
			v := &rooflineView{roofs: roofs(c.Machine, &r)}
			prefill, err := dots(r.PrefillOps, prefillMark)
			testkit.Must(t, err)
			decode, err := dots(r.DecodeOps, decodeMark)
			testkit.Must(t, err)
			v.under(slices.Concat(prefill, decode))
			notes, err := v.measure(timed(&r, times))
			if times < 1 {
				if err == nil && !strings.Contains(strings.Join(notes, " "), "over the roof") ||
					err != nil && !strings.Contains(err.Error(), "over the roof") {
					t.Errorf("%s, %v times: %v, %v", name, times, notes, err)
				}
			} else if err != nil {
				t.Errorf("%s, %v times: %v", name, times, err)
			}
			for _, m := range v.measured {
				if m.y() > overRoof*m.roof.at(m.x(), false) || m.ofRoof() > 1 {
					t.Errorf("%s: %s is over its roof", name, m.name)
				}
				d := v.predicted(&MeasuredOperator{Name: m.name, Decode: m.mark == decodeMark})
				if len(c.Model.Layers) == 1 && (math.Abs(m.x()/d.x()-1) > 1e-6 || math.Abs(m.y()*times/d.y()-1) > 1e-6) {
					t.Errorf("%s: %s at %v, %v; predicted at %v, %v", name, m.name, m.x(), m.y(), d.x(), d.y())
				}
			}
		}
	}
}

func TestRooflineMeasuredOdd(t *testing.T) {
	c := testCase(t, "llama3.1-8b", "h200", 1, 1)
	r, err := breakdown.Explain(c)
	testkit.Must(t, err)
	for want, m := range map[string]MeasuredOperator{
		"must be finite":              {Name: "qkv_proj", FLOPs: 1e12, Bytes: 1e9, Observed: math.NaN()},
		"no operator of the estimate": {Name: "mystery", FLOPs: 1e12, Bytes: 1e9, Observed: 1},
		"no measured operator has":    {Name: "norm", Observed: 1},
		"the time above 0":            {Name: "qkv_proj", FLOPs: 1e12, Bytes: 1e9},
		"it would be over the roof":   {Name: "qkv_proj", FLOPs: 1e12, Bytes: 1e9, Observed: 1e-6},
	} {
		if _, err := Roofline(c, &r, []MeasuredOperator{m}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", m, err, want)
		}
	}
	f, err := Roofline(c, &r, timed(&r, 1.1))
	testkit.Must(t, err)
	var b strings.Builder
	if err := f.Write(&b, "svg"); err != nil || !strings.Contains(b.String(), "measured") {
		t.Errorf("%v", err)
	}
}
