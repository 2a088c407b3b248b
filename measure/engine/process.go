package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// A Spec says how a worker is started.
type Spec struct {
	Command []string
	Env     []string // added to this program's own
	Dir     string
	LogFile string // where the whole log goes; "" for nowhere
	Limits  Limits
	Cleanup func() // once the process has ended
}

// Limits are the longest that a worker may stay silent before it is taken to
// hang. A limit of 0 is the default.
type Limits struct {
	Hello   time.Duration // from the start; 1 minute
	Load    time.Duration // of load; 30 minutes
	Silence time.Duration // between events of other commands; 10 minutes
	Grace   time.Duration // from the request to end until it is killed; 5 seconds
}

func (l Limits) withDefaults() Limits {
	for _, d := range []struct {
		of *time.Duration
		is time.Duration
	}{
		{&l.Hello, time.Minute}, {&l.Load, 30 * time.Minute},
		{&l.Silence, 10 * time.Minute}, {&l.Grace, 5 * time.Second},
	} {
		if *d.of == 0 {
			*d.of = d.is
		}
	}
	return l
}

// A message is a line of a worker, read; or why there are no more.
type message struct {
	event Event
	line  string
	err   error // of the line, or io.EOF when the worker has ended
}

// A process is a running worker and its pipes.
type process struct {
	cmd    *exec.Cmd
	name   string
	grace  time.Duration
	stdin  *os.File
	events chan message
	log    *tail
	ended  chan struct{} // closed once the process was waited for
	state  error         // how it ended; valid after ended
	once   sync.Once     // of the request to end
	quiet  chan struct{} // closed when nobody reads events any more
}

// launch starts a process, its reader and its reaper.
func launch(spec Spec) (*process, error) {
	if len(spec.Command) == 0 {
		return nil, &Failure{Kind: Invalid, Message: "no command to start a worker with"}
	}
	p := &process{
		cmd:    exec.Command(spec.Command[0], spec.Command[1:]...),
		name:   filepath.Base(spec.Command[0]),
		grace:  spec.Limits.Grace,
		events: make(chan message, 64),
		log:    &tail{},
		ended:  make(chan struct{}),
		quiet:  make(chan struct{}),
	}
	p.cmd.Env, p.cmd.Dir = append(os.Environ(), spec.Env...), spec.Dir
	ownGroup(p.cmd)
	file, err := openLog(spec.LogFile)
	if err != nil {
		return nil, err
	}
	if file != nil {
		p.log.also = file
	}
	pipes, err := p.start()
	if err != nil {
		closeAll(file)
		return nil, fmt.Errorf("%s cannot be started: %w", spec.Command[0], err)
	}
	go p.follow(pipes, file, spec.Cleanup)
	return p, nil
}

func openLog(path string) (*os.File, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("the worker's log: %w", err)
	}
	return file, nil
}

// start makes the three pipes itself. Those of os/exec would keep Wait from
// returning while a child of the worker holds them open.
func (p *process) start() (pipes [2]*os.File, err error) {
	var ends []*os.File // the worker's
	defer func() { closeAll(ends...) }()
	var mine [3]*os.File
	for i := range mine {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(mine[:]...)
			return pipes, err
		}
		if i == 0 {
			mine[i], ends = w, append(ends, r)
		} else {
			mine[i], ends = r, append(ends, w)
		}
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = ends[0], ends[1], ends[2]
	if err := p.cmd.Start(); err != nil {
		closeAll(mine[:]...)
		return pipes, err
	}
	p.stdin = mine[0]
	return [2]*os.File{mine[1], mine[2]}, nil
}

// follow reads until the process has ended and its pipes are empty, then says so.
func (p *process) follow(pipes [2]*os.File, file *os.File, cleanup func()) {
	var readers sync.WaitGroup
	readers.Go(func() { p.read(pipes[0]) })
	readers.Go(func() { _, _ = io.Copy(p.log, pipes[1]) })
	p.state = p.cmd.Wait()
	kill(p.cmd.Process) // what is left of its group
	// A child that left the group may still hold the pipes.
	late := time.Now().Add(time.Second)
	for _, pipe := range pipes {
		_ = pipe.SetReadDeadline(late)
	}
	readers.Wait()
	closeAll(pipes[0], pipes[1], p.stdin, file)
	if cleanup != nil {
		cleanup()
	}
	close(p.ended)
	close(p.events)
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

var errLong = fmt.Errorf("a line is longer than %d bytes", MaxLine)

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

// end asks the process to end, kills it after the grace, and waits for it. What
// it still says is thrown away.
func (p *process) end(ctx context.Context) {
	p.once.Do(func() { close(p.quiet) })
	terminate(p.cmd.Process)
	p.reap(ctx, p.grace)
}

// reap waits for the process, and kills it after the grace.
func (p *process) reap(ctx context.Context, grace time.Duration) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.ended:
		return
	case <-timer.C:
	case <-ctx.Done():
	}
	kill(p.cmd.Process)
	<-p.ended
}

// how says how the process ended.
func (p *process) how() string {
	if p.state == nil {
		return "exit status 0"
	}
	return p.state.Error()
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}
