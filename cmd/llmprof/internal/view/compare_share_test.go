package view

import "testing"

// Operators have no share of a difference that is the rounding of sums.
func TestShareOfNoDifference(t *testing.T) {
	c := Comparison{Sides: []Side{
		{Ops: []SideOperator{{Phase: "prefill", Name: "a", Time: 1}, {Phase: "decode", Name: "a", Time: 0.1},
			{Phase: "decode", Name: "b", Time: 0.2}}},
		{Ops: []SideOperator{{Phase: "prefill", Name: "a", Time: 3}, {Phase: "decode", Name: "a", Time: 0.3}}},
	}}
	for _, o := range c.Operators() {
		if want := map[string]float64{"prefill": 1}[o.Phase]; o.Share != want {
			t.Errorf("%+v, want a share of %g", o, want)
		}
	}
}
