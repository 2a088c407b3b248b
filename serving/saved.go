package serving

import (
	"encoding/json"
	"fmt"
)

// savedSketch is a Sketch as JSON has it.
type savedSketch struct {
	Counts []int   `json:"counts"`
	Base   int     `json:"base"`
	N      int     `json:"n"`
	Sum    float64 `json:"sum"`
}

// MarshalJSON writes the bins, so that a result can be read back as it was.
func (s Sketch) MarshalJSON() ([]byte, error) {
	return json.Marshal(savedSketch{s.counts, s.base, s.N, s.Sum})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Sketch) UnmarshalJSON(text []byte) error {
	var x savedSketch
	if err := json.Unmarshal(text, &x); err != nil {
		return err
	}
	n := 0
	for _, count := range x.Counts {
		if count < 0 {
			return fmt.Errorf("a distribution has a bin of %d values", count)
		}
		n += count
	}
	if n != x.N {
		return fmt.Errorf("a distribution of %d values has %d in its bins", x.N, n)
	}
	*s = Sketch{counts: x.Counts, base: x.Base, N: x.N, Sum: x.Sum}
	return nil
}
