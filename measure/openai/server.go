package openai

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/shlex"

	"llmprof/internal/child"
)

// A ServerSpec says how a server is started, and how it is known to be ready.
type ServerSpec struct {
	// Command is split into words as a POSIX shell does it, quotes and all, but no
	// shell runs: nothing is expanded. NAME=VALUE words before the program are its
	// environment.
	Command string
	Env     []string // added to this program's own

	Ready   func(context.Context) error // nil once the server answers; Answers makes one
	Timeout time.Duration               // until it is ready; 0 for 30 minutes, for weights may have to be fetched
	Grace   time.Duration               // time from the request to end until the kill; 0 for 30 seconds
}

// A Server is one that StartServer started.
type Server struct {
	process *child.Child
	name    string
	stopped atomic.Bool
}

// StartServer starts a server and waits until it is ready. Where it does not get
// there, nothing of it is left, and the error ends with its log. ctx is of the
// start alone.
func StartServer(ctx context.Context, spec ServerSpec) (*Server, error) {
	if spec.Ready == nil {
		return nil, errors.New("nothing says when the server is ready")
	}
	env, command, err := split(spec.Command)
	if err != nil {
		return nil, err
	}
	if spec.Ready(ctx) == nil {
		return nil, errors.New("a server answers there before this one is started: stop that one, or measure it without a command")
	}
	spec.Timeout = cmp.Or(spec.Timeout, 30*time.Minute)
	spec.Grace = cmp.Or(spec.Grace, 30*time.Second)
	p, err := child.Start(child.Spec{
		Command: command, Env: slices.Concat(spec.Env, env), Grace: spec.Grace,
	})
	if err != nil {
		return nil, err
	}
	s := &Server{process: p, name: filepath.Base(command[0])}
	if err := s.await(ctx, spec); err != nil {
		p.End(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("%w%s", err, child.Quote(p.Log()))
	}
	return s, nil
}

// await asks again and again whether the server is ready.
func (s *Server) await(ctx context.Context, spec ServerSpec) error {
	begun := time.Now()
	within, cancel := context.WithTimeout(ctx, spec.Timeout)
	defer cancel()
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	var why error // last reason why the server is not ready, of an attempt that the timeout did not cut
	for {
		asked := spec.Ready(within)
		if why == nil || within.Err() == nil {
			why = asked
		}
		select {
		case <-s.process.Ended():
			return fmt.Errorf("the server %s ended before it was ready: %s", s.name, s.process.How())
		default:
		}
		if asked == nil {
			return nil
		}
		select {
		case <-s.process.Ended():
		case <-pause.C:
		case <-within.Done():
			if ctx.Err() != nil {
				return fmt.Errorf("the server %s was stopped after %v, before it was ready: %w",
					s.name, time.Since(begun).Round(time.Second), context.Cause(ctx))
			}
			return fmt.Errorf("the server %s was not ready within %v: %w", s.name, spec.Timeout, why)
		}
	}
}

// assignment is a word that sets a variable, as POSIX has it.
var assignment = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`) })

func split(line string) (env, command []string, err error) {
	words, err := shlex.Split(line)
	if err != nil {
		return nil, nil, fmt.Errorf("the server's command %q: %w", line, err)
	}
	for len(words) > 0 && assignment().MatchString(words[0]) {
		env, words = append(env, words[0]), words[1:]
	}
	if len(words) == 0 {
		return nil, nil, fmt.Errorf("the server's command %q names no program", line)
	}
	for _, w := range words {
		if slices.Contains([]string{"|", "||", "&", "&&", ";", "<", ">", ">>", "2>&1"}, w) {
			return nil, nil, fmt.Errorf("the server's command has the word %q, but no shell runs it: where it takes one, write sh -c '...'", w)
		}
	}
	return env, words, nil
}

// PIDs lists the server's processes, to which energy and memory are attributed.
func (s *Server) PIDs() []int { return s.process.PIDs() }

// Died says how the server ended, if it did so without being asked to by Stop.
func (s *Server) Died() error {
	if s.stopped.Load() {
		return nil
	}
	select {
	case <-s.process.Ended():
	default:
		return nil
	}
	how := s.process.How()
	return fmt.Errorf("the server %s ended by itself: %s%s%s", s.name, how, child.Hint(how), child.Quote(s.process.Log()))
}

// Stop ends the server and all its processes: they are asked to, then killed.
// The error is that of a server that had died before. It may be called twice.
func (s *Server) Stop() error {
	if err := s.Died(); err != nil {
		return err
	}
	s.stopped.Store(true)
	s.process.End(context.Background())
	return nil
}
