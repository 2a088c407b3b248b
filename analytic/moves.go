package analytic

import (
	"llmprof/analytic/energy"
	"llmprof/roofline"
)

// A moves is the machines with a constant moved, on which kernels are priced anew.
type moves struct {
	machines []movedMachine
	base     *Machine
	of       map[roofline.Set][]int // affected, as far as it was asked for
	cost     roofline.Cost          // kept to save allocations
}

func newMoves(machines []movedMachine, base *Machine) *moves {
	return &moves{machines: machines, base: base, of: map[roofline.Set][]int{}}
}

// affected is the machines on which a kernel that depends on constants takes another time, or grows in another way at the power limit.
func (m *moves) affected(constants roofline.Set) []int {
	all, known := m.of[constants]
	if !known {
		for i := range m.machines {
			if on := &m.machines[i]; on.changed&constants != 0 || on.Throttle != m.base.Throttle {
				all = append(all, i)
			}
		}
		m.of[constants] = all
	}
	return all
}

// A shift is what kernels take more on a machine with a constant moved. The bounds are left.
type shift struct {
	energy.Load
	piece uint64
}

// shift adds what kernel i of a part takes more on machine j.
func (m *moves) shift(s *shift, j int, l *Lowering, i int) {
	on, k, cost, a := &m.machines[j], &l.Kernels[i], &l.costs[i], &l.each[i]
	if on.changed&cost.Constants != 0 {
		on.prices.Reprice(&m.cost, cost, &k.Kernel)
		cost = &m.cost
	}
	var load energy.Load
	s.piece += pieceOf(l.at(i), cost.Piece()|on.Take(&load, cost)) - pieceOf(l.at(i), a.choice)
	s.Add(&load, 1)
	s.Add(&a.load, -1)
}

// shifted adds what the kernels take more on a machine of moves, by its number from 1; 0 is the machine that they were priced on.
func (s *sums) shifted(t *timing, machine int) (piece uint64) {
	if machine == 0 {
		return 0
	}
	more := &s.shifts[machine-1]
	t.Add(&more.Load, 1)
	return more.piece
}

// pieceOf is the addend of a choice of kernel i to the piece of a step. It can be subtracted
// again, in any order.
func pieceOf(i int, choice uint64) uint64 {
	x := (uint64(i)<<8 | choice) * 0x9e3779b97f4a7c15 // a multiplicative hash, as splitmix64's
	return (x ^ x>>29) * 0xbf58476d1ce4e5b9
}
