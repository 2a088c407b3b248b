package experiment

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"llmprof/internal/spelling"
)

// An Order is that of the runs of an experiment.
type Order string

// The orders. Interleaved runs every point once before any is repeated, so that
// a drift of the machine falls on all alike; Shuffled mixes them all, by the
// seed.
const (
	Sequential  Order = "sequential"
	Interleaved Order = "interleaved"
	Shuffled    Order = "shuffled"
)

// orders lists them.
func orders() []string { return []string{string(Sequential), string(Interleaved), string(Shuffled)} }

// parseOrder reads the name of an order.
func parseOrder(name string) (Order, error) {
	if !slices.Contains(orders(), name) {
		return Sequential, fmt.Errorf("%q is not an order; %s", name, spelling.Hint(name, orders()))
	}
	return Order(name), nil
}

// A Trial is one run of a point.
type Trial struct {
	Point    Point
	Cycle    int // number of the repeat, from 0
	Hash     string
	Settings []byte // canonical; the hash is theirs
	ID       string // names the result's files: NAME-HASH-cCYCLE
}

// hashInName is how much of the hash a file's name has: by chance, two of a
// million points agree in it once in 500 experiments; the whole is compared.
const hashInName = 12

// Trials are all runs of the experiment, in their order.
func (e *Experiment) Trials() ([]Trial, error) {
	var trials []Trial
	for i := range e.Points {
		settings, err := e.Points[i].Canonical()
		if err != nil {
			return nil, err
		}
		hash, err := e.Points[i].Hash()
		if err != nil {
			return nil, err
		}
		for c := range e.Cycles {
			trials = append(trials, Trial{
				Point: e.Points[i], Cycle: c, Hash: hash, Settings: settings,
				ID: fmt.Sprintf("%s-%s-c%d", e.Name, hash[:hashInName], c),
			})
		}
	}
	switch e.Order {
	case Interleaved:
		slices.SortStableFunc(trials, func(a, b Trial) int { return a.Cycle - b.Cycle })
	case Shuffled:
		r := rand.New(rand.NewPCG(e.OrderSeed, 0))
		r.Shuffle(len(trials), func(i, j int) { trials[i], trials[j] = trials[j], trials[i] })
	}
	return trials, nil
}
