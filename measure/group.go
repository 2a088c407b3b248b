package measure

import (
	"context"
	"sync"

	"llmprof/measure/engine"
)

// A group is the sessions of replicas that are measured side by side. They begin
// a phase together, and none stops before all have what they need: else the last
// would be measured on a machine that is half idle.
type group struct {
	size int
	mu   sync.Mutex
	here map[engine.Phase]int           // sessions that are ready to begin
	gate map[engine.Phase]chan struct{} // closed when all are
	done map[engine.Phase]int           // sessions that have what they need
}

func newGroup(size int) *group {
	return &group{size: size, here: map[engine.Phase]int{}, gate: map[engine.Phase]chan struct{}{}, done: map[engine.Phase]int{}}
}

// meet waits until all sessions are ready for the phase.
func (g *group) meet(ctx context.Context, p engine.Phase) error {
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
func (g *group) leave(p engine.Phase) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.done[p]++
}

func (g *group) over(p engine.Phase) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.done[p] >= g.size
}
