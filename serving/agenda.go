package serving

import (
	"slices"
	"sort"

	"llmprof/unit"
)

// An agenda is what happens at times, the earliest first. What is added happens late as a rule, so that little is moved.
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
func (a *agenda[T]) next() event[T] {
	first := (*a)[0]
	*a = (*a)[1:]
	return first
}
