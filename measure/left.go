package measure

import (
	"fmt"

	"llmprof/measure/engine/child"
)

// sayLeft names, once, the processes that an earlier llmprof left behind: they may
// hold memory of a GPU, or the address that a server is to have.
func (l *Lab) sayLeft() {
	if l.looked {
		return
	}
	l.looked = true
	for _, p := range child.Left() {
		l.say(p.String())
	}
}

// withLeft is an error of starting a server, with what an earlier llmprof left behind
// and may be in its way.
func withLeft(err error) error {
	for _, p := range child.Left() {
		err = fmt.Errorf("%w; %v", err, &p)
	}
	return err
}
