package serving

import (
	"slices"
	"sort"

	"llmprof/unit"
)

// An agenda is what happens at times, the earliest first. It is sorted: most of what is added comes late, and package container/heap would
// allocate memory for each event.
type agenda[T any] []event[T]

type event[T any] struct {
	at   unit.Seconds
	what T
}

func (a *agenda[T]) add(at unit.Seconds, what T) {
	i := sort.Search(len(*a), func(i int) bool { return (*a)[i].at > at })
	*a = slices.Insert(*a, i, event[T]{at, what})
}

// next takes the earliest.
func (a *agenda[T]) next() event[T] { return (*fifo[event[T]])(a).pop() }
