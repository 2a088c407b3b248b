package serving

import (
	"encoding/json"
	"testing"
)

// A sketch that was saved has the same quantiles, to the last digit.
func TestSketchSaved(t *testing.T) {
	var s, back Sketch
	for i := range 1000 {
		s.Add(1e-4*float64(i*i+1), 1+i%3)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	for _, share := range []float64{0.01, 0.5, 0.99, 1} {
		if s.Quantile(share) != back.Quantile(share) || s.Mean() != back.Mean() {
			t.Errorf("%g: %v and %v, means %v and %v", share, s.Quantile(share), back.Quantile(share), s.Mean(), back.Mean())
		}
	}
	for _, wrong := range []string{`{"counts":[1,-1],"n":0}`, `{"counts":[1],"n":2}`, `[]`} {
		if err := json.Unmarshal([]byte(wrong), &back); err == nil {
			t.Errorf("%s is read", wrong)
		}
	}
}
