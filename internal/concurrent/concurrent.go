// Package concurrent runs loops on all processors, and waits for times unless a context ends.
package concurrent

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Each calls do with all numbers below n, on all processors at once.
func Each(n int, do func(i int)) {
	var workers sync.WaitGroup
	var next atomic.Int64
	for range min(runtime.GOMAXPROCS(0), n) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	workers.Wait()
}
