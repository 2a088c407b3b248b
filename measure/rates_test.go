package measure

import (
	"testing"

	"llmprof/analytic/operator"
	"llmprof/measure/result"
	"llmprof/measure/worker"
)

// A rate is there where the time that it comes from is, and never 0 for one that
// nobody measured.
func TestRatesOfWhatWasMeasured(t *testing.T) {
	s := &session{set: &Settings{Load: worker.Load{Workload: operator.Workload{Batch: 2, PromptLen: 100, GenLen: 10}}}, res: &result.Result{}}
	if s.rates(); s.res.Throughput != nil {
		t.Errorf("nothing was measured and has the rates %+v", s.res.Throughput)
	}
	s.res.TPOT = &result.Times{}
	s.res.TPOT.Median = 0.01
	s.rates()
	if r := s.res.Throughput; r.Generated != nil || r.Prompt != nil || *r.Decode != 200 {
		t.Errorf("of a TPOT came %+v", r)
	}
}
