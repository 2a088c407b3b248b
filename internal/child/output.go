package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"time"

	"llmprof/internal/input"
)

// mostOutput is the most bytes that a program may print.
const mostOutput = 16 << 20

// heldOpen is how long a pipe is waited for that a child of an ended program holds open.
const heldOpen = time.Second

// Output runs a program for so long at most, and returns what it prints, of bounded length, whatever the program or its
// children do. One that is ended early takes its children with it. Where it fails, what it wrote to its standard error is there too.
func Output(ctx context.Context, limit time.Duration, name string, args ...string) (stdout, stderr []byte, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	late := time.AfterFunc(limit, func() { stop(fmt.Errorf("it did not end within %v", limit)) })
	defer late.Stop()
	cmd := exec.CommandContext(ctx, name, args...)
	runtime.LockOSThread() // The death signal is of the thread that starts the process.
	defer runtime.UnlockOSThread()
	ownGroup(cmd, false)
	cmd.Cancel = func() error { kill(cmd.Process); return nil }
	cmd.WaitDelay = heldOpen
	out := &bounded{full: func() { stop(fmt.Errorf("it printed more than %s", input.Size(mostOutput))) }}
	said := &bounded{full: out.full}
	cmd.Stdout, cmd.Stderr = out, said
	err = cmd.Run()
	cause := context.Cause(ctx)
	switch {
	case errors.Is(err, exec.ErrWaitDelay): // It ended well; a child of it has the pipe.
		err = nil
	case err != nil && cause != nil:
		err = cause
	}
	return out.b.Bytes(), said.b.Bytes(), err
}

// A bounded buffer takes as much as a program may print.
type bounded struct {
	b    bytes.Buffer
	full func()
}

var errFull = errors.New("too much was printed")

// Write keeps what there is room for.
func (w *bounded) Write(p []byte) (int, error) {
	if w.b.Len()+len(p) > mostOutput {
		w.full()
		return 0, errFull
	}
	return w.b.Write(p)
}
