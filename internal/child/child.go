// Package child runs a program in a process group of its own, keeps the end of
// its log for an error to quote, and ends it together with all of its children,
// also where this program is killed.
package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Spec says how a program is started.
type Spec struct {
	Command []string
	Env     []string        // added to this program's own
	Input   bool            // Standard input is a pipe to write to; else it is empty.
	Output  func(io.Reader) // reads its standard output, until its end; nil if that is part of the log
	Line    func(string)    // is given each line of its log, cut, as it ends; nil for none
	Grace   time.Duration   // time from the request to end until it is killed
	Cleanup func()          // once it has ended
}

// A Child is a running program.
type Child struct {
	Input *os.File // nil unless the Spec wanted it

	cmd   *exec.Cmd
	grace time.Duration
	guard *guard
	log   *tail
	ended chan struct{} // closed once the process was waited for
	state error         // how it ended; valid after ended
}

// Start starts a program, and what reads from it and waits for its end. Where it
// cannot, Cleanup is not called.
func Start(spec Spec) (*Child, error) {
	if len(spec.Command) == 0 {
		return nil, errors.New("no command to start")
	}
	c := &Child{
		cmd: exec.Command(spec.Command[0], spec.Command[1:]...), grace: spec.Grace,
		log: &tail{each: spec.Line}, ended: make(chan struct{}),
	}
	c.cmd.Env = append(append(os.Environ(), spec.Env...), mark())
	started := make(chan error)
	go func() {
		// The death signal is of the thread that starts the process, which has to last as
		// long as the process does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		pipes, err := c.start(spec)
		started <- err
		if err == nil {
			c.follow(spec, pipes)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s cannot be started: %w", spec.Command[0], err)
	}
	return c, nil
}

// start makes the pipes itself. Those of os/exec would keep Wait from returning
// while a child of the program holds them open. pipes are its output, nil where
// that is part of the log, and its log.
func (c *Child) start(spec Spec) (pipes [2]*os.File, err error) {
	var theirs, ours []*os.File
	pipe := func() (r, w *os.File) {
		if err == nil {
			if r, w, err = os.Pipe(); err != nil {
				return nil, nil
			}
		}
		return r, w
	}
	defer func() {
		closeAll(theirs...)
		if err != nil {
			closeAll(ours...)
		}
	}()
	r, w := pipe()
	theirs, ours = append(theirs, w), append(ours, r)
	pipes[1], c.cmd.Stderr, c.cmd.Stdout = r, w, w
	if spec.Output != nil {
		r, w := pipe()
		theirs, ours = append(theirs, w), append(ours, r)
		pipes[0], c.cmd.Stdout = r, w
	}
	if spec.Input {
		r, w := pipe()
		theirs, ours = append(theirs, r), append(ours, w)
		c.Input, c.cmd.Stdin = w, r
	}
	if err != nil {
		return pipes, err
	}
	c.guard = startGuard(c.grace)
	ownGroup(c.cmd, c.guard != nil)
	if err = c.cmd.Start(); err != nil {
		c.guard.release()
		return pipes, err
	}
	c.guard.over(c.PID())
	return pipes, nil
}

// follow reads until the process has ended and its pipes are empty, then says so.
func (c *Child) follow(spec Spec, pipes [2]*os.File) {
	var readers sync.WaitGroup
	if pipes[0] != nil {
		readers.Go(func() { spec.Output(pipes[0]) })
	}
	readers.Go(func() { _, _ = io.Copy(c.log, pipes[1]) })
	c.state = c.cmd.Wait()
	kill(c.cmd.Process) // processes of its group that still run
	c.guard.release()
	// A child that left the group may still hold the pipes.
	late := time.Now().Add(time.Second)
	for _, pipe := range pipes {
		if pipe != nil {
			_ = pipe.SetReadDeadline(late)
		}
	}
	readers.Wait()
	closeAll(pipes[0], pipes[1], c.Input)
	if spec.Cleanup != nil {
		spec.Cleanup()
	}
	close(c.ended)
}

// PID gives the program's process, which leads its group.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Ended is closed once the program has ended and all that it wrote was read.
func (c *Child) Ended() <-chan struct{} { return c.ended }

// Log gives the last lines of the log, and of a dump in it the first ones too.
func (c *Child) Log() []string { return c.log.lines() }

// End asks the program to end, kills it after its grace or when ctx ends, and
// waits for it.
func (c *Child) End(ctx context.Context) {
	select {
	case <-c.ended:
		return // The process's number may be another's by now.
	default:
	}
	terminate(c.cmd.Process)
	timer := time.NewTimer(c.grace)
	defer timer.Stop()
	select {
	case <-c.ended:
		return
	case <-timer.C:
	case <-ctx.Done():
	}
	kill(c.cmd.Process)
	<-c.ended
}

// Well is how a program ends without an error.
const Well = "exit status 0"

// How says how the program ended, once it has.
func (c *Child) How() string {
	if c.state == nil {
		return Well
	}
	return c.state.Error()
}

// Hint is what the kill of a program may be of that nobody meant to kill, for an error's text; "" for another end.
func Hint(how string) string {
	if !strings.Contains(how, "killed") {
		return ""
	}
	return "; where nobody killed it, the system had no memory left"
}

// Quote puts what is kept of a log at the end of an error's text.
func Quote(lines []string) string {
	if len(lines) == 0 {
		return "; its log is empty"
	}
	what := "the end of its log"
	if slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, leftOut) }) {
		what = "the first and the last lines of its log"
	}
	return "; " + what + ":\n  " + strings.Join(lines, "\n  ")
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}
