package plan

import "llmprof/unit"

// An Offer is what GPUs are rented for.
type Offer struct {
	GPU    string              // key of the table
	Hour   unit.DollarsPerHour // price of one GPU
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
