package plots

import "slices"

// A graph is drawn as its operators run, one row each, with what flows between
// them in lanes at the left of the rows: the residual stream, the operators of
// a block, which reads the stream and adds to it, and a branch beside those.
const (
	streamLane = iota
	blockLane
	branchLane
	numLanes
)

// A span is the nodes from one to another: a block between the gap above node
// from, where it reads the residual stream, and that below node to, where it
// adds to it.
type span struct{ from, to int }

// A branch leaves the lane of its block in gap fork and runs beside it to the gap
// below node to. It has the nodes from one to another.
type branch struct{ fork, from, to int }

// An event is what happens to the ways in a gap between two nodes, in the order
// in which it happens.
type event uint8

const (
	merges event = iota // a branch ends
	adds                // a block adds to the stream
	leaves              // a block reads the stream
	forks               // a branch begins
)

// events are those of gap i, which is above node i.
func (cl *cluster) events(i int) (es []event) {
	for _, b := range cl.branches {
		if b.to+1 == i {
			es = append(es, merges)
		}
		if b.fork == i {
			es = append(es, forks)
		}
	}
	for _, s := range cl.residual {
		if s.to+1 == i {
			es = append(es, adds)
		}
		if s.from == i {
			es = append(es, leaves)
		}
	}
	slices.Sort(es)
	return es
}

// lane is that of node i.
func (cl *cluster) lane(i int) int {
	for _, b := range cl.branches {
		if b.from <= i && i <= b.to {
			return branchLane
		}
	}
	for _, s := range cl.residual {
		if s.from <= i && i <= s.to {
			return blockLane
		}
	}
	return streamLane
}
