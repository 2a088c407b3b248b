//go:build !linux

package child

// PIDs gives the program's process alone: its children cannot be found here.
func (c *Child) PIDs() []int {
	select {
	case <-c.ended:
		return nil
	default:
		return []int{c.PID()}
	}
}
