package serving

import "llmprof/unit"

// An agenda is what happens at times, a heap with the earliest first. Package container/heap would allocate memory for each event.
type agenda[T any] []event[T]

type event[T any] struct {
	at   unit.Seconds
	what T
}

func (a *agenda[T]) add(at unit.Seconds, what T) {
	*a = append(*a, event[T]{at, what})
	all := *a
	for i := len(all) - 1; i > 0; {
		up := (i - 1) / 2
		if !(all[i].at < all[up].at) {
			return
		}
		all[i], all[up] = all[up], all[i]
		i = up
	}
}

// next takes the earliest.
func (a *agenda[T]) next() event[T] {
	all, last := *a, len(*a)-1
	first := all[0]
	all[0], all[last] = all[last], first
	*a = all[:last]
	for i, down := 0, 1; down < last; i, down = down, 2*down+1 {
		if right := down + 1; right < last && all[right].at < all[down].at {
			down = right
		}
		if !(all[down].at < all[i].at) {
			break
		}
		all[i], all[down] = all[down], all[i]
	}
	return first
}
