package validate

import (
	"math"
	"slices"
	"sort"
	"testing"

	"llmprof"
	"llmprof/hardware"
	"llmprof/internal/testkit/casetest"
)

// TestSpread works out by how much times of releases that were not measured differ from the predictions by the constants of those that
// were: the term that, in quadrature with the interval of the measured release, has 95 % of them inside. Engines have these terms.
func TestSpread(t *testing.T) {
	s := scorer(t)
	s.Calibration = func(g *hardware.GPU, engine string) (*hardware.CalibrationFile, error) {
		return hardware.BuiltIn(llmprof.Calibrations, g, engine)
	}
	beyond, all := map[string][]float64{}, []float64(nil)
	for _, r := range s.Score(embedded(t)).Rows {
		e, err := r.runner().parse()
		if err != nil {
			t.Fatal(err)
		}
		spread := e.Profile().ReleaseError
		if spread == 0 || casetest.GPU(t, r.GPU).Generation == e.Profile().Traced || r.Fitted != "" || r.PredictedLow == nil {
			continue
		}
		end := *r.PredictedHigh
		if r.Value < r.Predicted {
			end = *r.PredictedLow
		}
		off, width := r.Value/r.Predicted-1, end/r.Predicted-1
		more := math.Sqrt(max(off*off-(width*width-spread*spread), 0))
		if r.Value < r.Predicted && end == *r.Floor {
			more = 0
		}
		name := e.Profile().Engine()
		beyond[name], all = append(beyond[name], more), append(all, more)
	}
	const known = 3
	if len(beyond) != known+1 {
		t.Errorf("other releases of %d engines were observed, want %d", len(beyond), known+1)
	}
	for name, terms := range beyond {
		if len(terms) < 100 {
			terms = all
		}
		slices.Sort(terms)
		within := sort.SearchFloat64s(terms, math.SmallestNonzeroFloat64) // the terms that are 0
		got, has := terms[len(terms)*95/100], casetest.Engine(t, name+"@unknown").Profile().ReleaseError
		t.Logf("%s: %.3f of %d times, of which %.0f %% need none", name, got, len(terms), 100*float64(within)/float64(len(terms)))
		if math.Abs(got-has) > 0.015 {
			t.Errorf("other releases of %s differ by %.3f, and the engine has %.3f", name, got, has)
		}
	}
}
