package measure

import (
	"context"
	"sync"

	"llmprof/measure/worker"
)

// A group is the sessions of replicas that are measured side by side. They begin
// a phase together, and none stops before all have what they need: else the last
// would be measured on a machine that is half idle.
type group struct {
	size int
	mu   sync.Mutex
	here map[worker.Phase]int           // sessions that are ready to begin
	gate map[worker.Phase]chan struct{} // closed when all are
	done map[worker.Phase]int           // sessions that have what they need
}

func newGroup(size int) *group {
	return &group{size: size, here: map[worker.Phase]int{}, gate: map[worker.Phase]chan struct{}{}, done: map[worker.Phase]int{}}
}

// meet waits until all sessions are ready for the phase.
func (g *group) meet(ctx context.Context, p worker.Phase) error {
	g.mu.Lock()
	if g.gate[p] == nil {
		g.gate[p] = make(chan struct{})
	}
	gate := g.gate[p]
	if g.here[p]++; g.here[p] == g.size {
		close(gate)
	}
	g.mu.Unlock()
	select {
	case <-gate:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave notes that a session has what it needs of the phase.
func (g *group) leave(p worker.Phase) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.done[p]++
}

func (g *group) over(p worker.Phase) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.done[p] >= g.size
}
