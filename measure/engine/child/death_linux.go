package child

import "syscall"

// dieWithUs has the system signal the process when the thread that started it has
// ended. With a guard it is asked to end, and the guard sees to it that it does.
func dieWithUs(attr *syscall.SysProcAttr, guarded bool) {
	attr.Pdeathsig = syscall.SIGKILL
	if guarded {
		attr.Pdeathsig = syscall.SIGTERM
	}
}
