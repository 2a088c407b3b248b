package child

import (
	"os"
	"slices"
	"strconv"
	"strings"
)

// PIDs lists the program's process and all that belong to it: those of its group,
// and the children of any of them. None is left once it has ended.
func (c *Child) PIDs() []int {
	select {
	case <-c.ended:
		return nil
	default:
	}
	ours := map[int]bool{c.PID(): true}
	others := processes()
	for grown := true; grown; {
		grown = false
		for pid, p := range others {
			if !ours[pid] && (p.group == c.PID() || ours[p.parent]) {
				ours[pid], grown = true, true
			}
		}
	}
	pids := make([]int, 0, len(ours))
	for pid := range ours {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return pids
}

type kin struct{ parent, group int }

// processes reads who is whose from /proc (proc_pid_stat(5)): the name in
// parentheses, which may hold anything, then state, parent and group.
func processes() map[int]kin {
	all := map[int]kin{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return all
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // the process has just ended
		}
		if k, ok := kinOf(string(stat)); ok {
			all[pid] = k
		}
	}
	return all
}

// kinOf reads the parent and the group from a process's stat.
func kinOf(stat string) (k kin, ok bool) {
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(f) < 3 {
		return kin{}, false
	}
	parent, err1 := strconv.Atoi(f[1])
	group, err2 := strconv.Atoi(f[2])
	return kin{parent, group}, err1 == nil && err2 == nil
}
