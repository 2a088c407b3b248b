package concurrent

import (
	"fmt"
	"sync/atomic"
	"testing"
)

func TestEach(t *testing.T) {
	for _, n := range []int{0, 1, 1000} {
		calls := make([]atomic.Int32, n)
		Each(n, func(i int) { calls[i].Add(1) })
		for i := range calls {
			if got := calls[i].Load(); got != 1 {
				t.Errorf("of %d: %d was called %d times", n, i, got)
			}
		}
	}
}

// An error ends the goroutine of its call alone, so that as many goroutines as numbers call all of them.
func TestDo(t *testing.T) {
	var calls atomic.Int32
	fails := func(i int) error {
		calls.Add(1)
		return fmt.Errorf("%d", i)
	}
	if err := Do(3, 3, fails); calls.Load() != 3 || err == nil || err.Error() != "0\n1\n2" {
		t.Errorf("%d calls: %v", calls.Load(), err)
	}
	if err := Do(100, 2, fails); calls.Load() != 5 || err == nil {
		t.Errorf("%d calls: %v", calls.Load(), err)
	}
}
