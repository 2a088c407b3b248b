package worker

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"llmprof/internal/child"
	"llmprof/internal/input"
)

// A Spec says how a worker is started.
type Spec struct {
	Command []string
	Env     []string // added to this program's own
	Limits  Limits
	Cleanup func() // once the process has ended
}

// Limits are the longest that a worker may stay silent before it is taken to
// hang. A limit of 0 is the default.
type Limits struct {
	Hello   time.Duration // limit of the start; 1 minute
	Load    time.Duration // limit of load; 30 minutes
	Silence time.Duration // between events of other commands; 10 minutes
	Grace   time.Duration // time from the request to end until the kill; 5 seconds
}

func (l Limits) withDefaults() Limits {
	l.Hello, l.Load = cmp.Or(l.Hello, time.Minute), cmp.Or(l.Load, 30*time.Minute)
	l.Silence, l.Grace = cmp.Or(l.Silence, 10*time.Minute), cmp.Or(l.Grace, 5*time.Second)
	return l
}

// A message is a line of a worker, read; or why there are no more.
type message struct {
	event Event
	line  string
	err   error // error of the line, or io.EOF when the worker has ended
}

// A process is a running worker and what it says.
type process struct {
	*child.Child
	name   string
	grace  time.Duration
	events chan message
	once   sync.Once     // the request to end is sent once
	quiet  chan struct{} // closed when nobody reads events any more
}

func launch(spec Spec) (*process, error) {
	if len(spec.Command) == 0 {
		return nil, Invalidf("no command to start a worker with")
	}
	p := &process{
		name:   filepath.Base(spec.Command[0]),
		grace:  spec.Limits.Grace,
		events: make(chan message, 64),
		quiet:  make(chan struct{}),
	}
	c, err := child.Start(child.Spec{
		Command: spec.Command, Env: spec.Env,
		Input: true, Output: p.read, Grace: spec.Limits.Grace, Cleanup: spec.Cleanup,
	})
	if err != nil {
		return nil, err
	}
	p.Child = c
	go func() {
		<-c.Ended()
		close(p.events)
	}()
	return p, nil
}

// read turns lines into messages. A line without its end was cut by the
// worker's death and is no event.
func (p *process) read(from io.Reader) {
	lines := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := readLine(lines)
		m := message{err: err}
		switch {
		case err == nil && len(line) == 0:
			continue
		case err == nil:
			m.event, m.err = ParseEvent(line)
			m.line = cut(line)
		case !errors.Is(err, errLong):
			return
		}
		select {
		case p.events <- m:
		case <-p.quiet:
			_, _ = io.Copy(io.Discard, from)
			return
		}
	}
}

var errLong = fmt.Errorf("a line is longer than %s", input.Size(MaxLine))

// readLine gives a line without its end, or errLong once a line grows too long.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > MaxLine:
			return nil, errLong
		case err == nil:
			return line[:len(line)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

func cut(line []byte) string {
	const most = 120
	if len(line) > most {
		return string(line[:most]) + "..."
	}
	return string(line)
}

// end ends the process. What it still writes is discarded.
func (p *process) end(ctx context.Context) {
	p.once.Do(func() { close(p.quiet) })
	p.End(ctx)
}
