package plots

import (
	"fmt"
	"strings"

	"llmprof/analytic/breakdown"
)

// Phases says which phases a graph shows.
type Phases uint8

// The phases of a graph.
const (
	BothPhases Phases = iota
	PrefillOnly
	DecodeOnly
)

// PhaseNames lists what ParsePhases takes.
func PhaseNames() []string { return []string{"both", "prefill", "decode"} }

// String is the name that ParsePhases takes.
func (p Phases) String() string { return PhaseNames()[min(p, DecodeOnly)] }

// ParsePhases finds phases by name.
func ParsePhases(s string) (Phases, error) {
	for p := BothPhases; p <= DecodeOnly; p++ {
		if strings.EqualFold(s, p.String()) {
			return p, nil
		}
	}
	return 0, fmt.Errorf("unknown phase %q (known: %s)", s, strings.Join(PhaseNames(), ", "))
}

// of is a report with the operators of these phases only.
func (p Phases) of(r *breakdown.Report) (*breakdown.Report, error) {
	only := *r
	if p == DecodeOnly && len(r.DecodeOps) == 0 {
		return nil, fmt.Errorf("model graph: there is no decode: prefill gives the first token, generate 2 or more")
	}
	switch p {
	case PrefillOnly:
		only.DecodeOps = nil
	case DecodeOnly:
		only.PrefillOps = nil
	}
	return &only, nil
}

// A column is one phase of a graph: its name, and its part of a node.
type column struct {
	name string
	of   func(*node) *work
}

// columns are those of the phases that a report has.
func columns(r *breakdown.Report) (cs []column) {
	if len(r.PrefillOps) > 0 {
		cs = append(cs, column{"prefill", func(n *node) *work { return &n.prefill }})
	}
	if len(r.DecodeOps) > 0 {
		cs = append(cs, column{"decode", func(n *node) *work { return &n.decode }})
	}
	return cs
}
