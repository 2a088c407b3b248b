//go:build !linux

package child

import (
	"fmt"
	"os"
)

// mark is the assignment that marks this program's children.
func mark() string { return fmt.Sprintf("%s=%d:", startedBy, os.Getpid()) }

// Left lists nothing: other processes' environments cannot be read here.
func Left() []Leftover { return nil }

// PIDs gives the program's process alone: its children cannot be found here.
func (c *Child) PIDs() []int {
	select {
	case <-c.ended:
		return nil
	default:
		return []int{c.PID()}
	}
}
