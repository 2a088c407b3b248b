package child

import (
	"fmt"
	"strings"
)

// startedBy is the variable that every process of a child has in its environment: the
// number of this program's process and when that was started.
const startedBy = "LLMPROF_STARTED_BY"

// A Leftover is a group of processes whose llmprof has ended without ending them.
type Leftover struct {
	Group   int
	PIDs    []int
	Command string // command line of the first process
	By      string // number of the process that started them
}

// String names the processes, and says how to end them.
func (l *Leftover) String() string {
	word := "process"
	if len(l.PIDs) > 1 {
		word += "es"
	}
	return fmt.Sprintf("%s %s (%s) of an llmprof that has ended (process %s) still runs; end it with: kill -- -%d",
		word, strings.Trim(fmt.Sprint(l.PIDs), "[]"), l.Command, l.By, l.Group)
}
