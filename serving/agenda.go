package serving

import (
	"container/heap"

	"llmprof/unit"
)

// An agenda is what happens at times, a heap with the earliest first.
type agenda[T any] []event[T]

type event[T any] struct {
	at   unit.Seconds
	what T
}

func (a *agenda[T]) add(at unit.Seconds, what T) { heap.Push(a, event[T]{at, what}) }

// next takes the earliest.
func (a *agenda[T]) next() event[T] { return heap.Pop(a).(event[T]) }

// Len, Less, Swap, Push and Pop are those of a heap.
func (a agenda[T]) Len() int           { return len(a) }
func (a agenda[T]) Less(i, j int) bool { return a[i].at < a[j].at }
func (a agenda[T]) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }

// Push appends an event.
func (a *agenda[T]) Push(x any) { *a = append(*a, x.(event[T])) }

// Pop takes the last event.
func (a *agenda[T]) Pop() any {
	n := len(*a) - 1
	x := (*a)[n]
	*a = (*a)[:n]
	return x
}
