package hardware

import (
	"slices"

	"llmprof/unit"
)

// Links say how the GPUs of a host reach each other, where it differs from what is usual of their kind.
type Links struct {
	P2P    bool // The driver grants peer access over PCIe, though it usually refuses it on these GPUs.
	NoP2P  bool // It does not, though it usually does: a virtual machine or an IOMMU is in the way.
	NVLink bool // The GPUs have their bridge.
}

// A LinkChoice is one of the links, by the key of its setting.
type LinkChoice struct {
	Name string
	Of   func(l *Links) *bool
}

// LinkChoices are all that hosts may differ in.
func LinkChoices() []LinkChoice {
	return []LinkChoice{
		{"p2p", func(l *Links) *bool { return &l.P2P }},
		{"no_p2p", func(l *Links) *bool { return &l.NoP2P }},
		{"nvlink", func(l *Links) *bool { return &l.NVLink }},
	}
}

// Linked is g on a host with such links.
func (g *GPU) Linked(l Links) *GPU {
	if g.Links == l {
		return g
	}
	other := *g
	other.Links = l
	return &other
}

// PeerAccess reports whether GPUs reach each other's memory over PCIe. Otherwise all goes through the host's memory.
func (g *GPU) PeerAccess() bool {
	if g.NoP2P {
		return g.Links.P2P
	}
	return !g.Links.NoP2P
}

// Joined is how many GPUs of the node the link joins: 1 where it is a bridge that the GPUs are without.
func (g *GPU) Joined() int {
	if g.Bridge && !g.Links.NVLink {
		return 1
	}
	return g.LinkGPUs
}

// LinkAmong is the rate, in one direction, at which each of n GPUs of a node
// reaches the others: over the link as far as it joins that many, else over PCIe.
func (g *GPU) LinkAmong(n int) unit.BytesPerSec {
	if n <= g.Joined() {
		return g.Link
	}
	return g.PCIe
}

// Route says in words how n GPUs of a node reach each other.
func (g *GPU) Route(n int) string {
	switch {
	case n <= g.Joined() && g.Bridge:
		return "over a bridge"
	case n <= g.Joined():
		return "over the link"
	case g.PeerAccess():
		return "over PCIe"
	}
	return "over PCIe through the host's memory"
}

// SameRoutes reports whether groups of so many GPUs reach each other on g as on other.
func (g *GPU) SameRoutes(other *GPU, groups []int) bool {
	return !slices.ContainsFunc(groups, func(n int) bool { return n > 1 && g.Route(n) != other.Route(n) })
}
