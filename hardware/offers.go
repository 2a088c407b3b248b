package hardware

import (
	"slices"
	"strings"

	"llmprof/unit"
)

// An Offer is what GPUs are rented for.
type Offer struct {
	GPU    string              // key of the table
	Hour   unit.DollarsPerHour // of one GPU
	Node   int                 // GPUs that are rented together
	Region string
	Term   string // "on-demand", "spot" or what the list calls it
	Source string // who offers it, and when
}

// For is what so many GPUs cost by an offer: whole nodes.
func (o *Offer) For(gpus int) unit.Dollars {
	node := max(o.Node, 1)
	return unit.Dollars(float64(o.Hour) * float64((gpus+node-1)/node*node))
}

// Prices are offers by the GPU that they are of, of those that the table knows.
type Prices struct{ Of map[string][]Offer }

// Classes are what GPUs are sold for.
func Classes() []string { return []string{"datacenter", "workstation", "consumer", "edge"} }

// Class is what the GPU is sold for: cards for desktops are consumer's or, by their names, a workstation's; what has no memory of its own
// is a module or a small computer.
func (g *GPU) Class() string {
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(g.Name, w) })
	}
	switch {
	case has("GH200", "GB200", "GB300", "VR200", "MI300A"):
		return "datacenter"
	case g.Integrated || has("Jetson", "DGX Spark", "Ryzen", "Apple"):
		return "edge"
	case has("GeForce", "TITAN", "Radeon RX", "Arc A", "Arc B"):
		return "consumer"
	case has("RTX", "Quadro", "Radeon", "Arc Pro"):
		return "workstation"
	}
	return "datacenter"
}
