package child

import (
	"fmt"
	"testing"
)

// FuzzKinOf checks that the name of a program, which may hold anything, never moves
// the numbers after it.
func FuzzKinOf(f *testing.F) {
	f.Add("sh", 1, 2)
	f.Add(") S 7 8 (", -1, 0)
	f.Fuzz(func(t *testing.T, name string, parent, group int) {
		if k, ok := kinOf(fmt.Sprintf("12 (%s) S %d %d 0 -1", name, parent, group)); !ok || k != (kin{parent, group}) {
			t.Errorf("%q: %+v, %v", name, k, ok)
		}
		kinOf(name)
	})
}
