// Package concurrent runs loops on all processors, and waits for times unless a context ends.
package concurrent

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
)

// Each calls do with all numbers below n, on all processors at once.
func Each(n int, do func(i int)) {
	_ = Do(n, runtime.GOMAXPROCS(0), func(i int) error { do(i); return nil })
}

// Do calls do with all numbers below n in so many goroutines, each of which ends at an error of its own call, and joins the errors in
// the order of the numbers. With as many goroutines as numbers all are called.
func Do(n, goroutines int, do func(i int) error) error {
	var workers sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, n)
	for range min(goroutines, n) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if errs[i] = do(i); errs[i] != nil {
					return
				}
			}
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}
