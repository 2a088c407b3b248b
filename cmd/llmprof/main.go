// Command llmprof predicts what inference of a large language model costs on a
// GPU: time, memory, energy and money.
//
//	llmprof estimate --model llama2-70b --gpu a100 --tp 8
//	llmprof models   list, show or check models
//	llmprof gpus     list, show, check or detect GPUs
//
// The result goes to standard output and everything else to standard error. It
// exits with 0 when done, with 1 when it failed, with 2 when the command line was
// wrong, and with 128 and a signal's number when that ended it: 130 after Ctrl-C.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"sync/atomic"
	"syscall"

	"golang.org/x/term"

	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/internal/input"
	"llmprof/internal/printable"
	"llmprof/internal/redact"
	"llmprof/internal/spelling"
)

func main() {
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(memoryLimit)
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}

// gcPercent lets the heap grow to 20 MB before the first collection: most
// commands are over by then.
const gcPercent = 400

// memoryLimit is from how many bytes on memory counts for more than the time of collections: input that takes this much is large or a bomb.
const memoryLimit = 384 << 20

// run runs the command line args and returns the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	var i interruption
	ctx, stop := i.watch(context.Background())
	defer stop()
	out := &standard{to: stdout}
	a := &app{
		stdin: stdin, stdout: out, styled: out, stderr: stderr, env: env, secrets: redact.Of(args...), args: args, read: input.Begin(),
	}
	defer a.read.End()
	if onTerminal(stdout) {
		harmless := &printable.Writer{To: out}
		defer func() { _ = harmless.Flush() }() // what began a character is no result
		a.stdout = harmless
	}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	a.rescue(err)
	switch {
	case out.failed != nil && (err == nil || !a.started): // Help or the version could not be written.
		a.logf("%v", out.failed)
		return 1
	case err == nil:
		return 0
	}
	if ctx.Err() != nil {
		fmt.Fprintln(stderr, "llmprof: interrupted")
		return 128 + int(i.by.Load()) // as shells report it: 130 after Ctrl-C
	}
	var wrong settings.UsageError
	if !errors.As(err, &wrong) {
		err = settings.InFlags(err)
	}
	a.logf("%v", err)
	var unknown spelling.UnknownError
	if !a.started || errors.As(err, &wrong) || errors.As(err, &unknown) {
		return 2
	}
	return 1
}

// A standard is standard output, whose errors name it. Cobra has no use for an error of help, so the first one is kept.
type standard struct {
	to     io.Writer
	failed error
}

func (s *standard) Write(p []byte) (int, error) {
	n, err := s.to.Write(p)
	if err != nil {
		err = fmt.Errorf("standard output: %w", input.Cause(err))
		s.failed = cmp.Or(s.failed, err)
	}
	return n, err
}

// onTerminal reports whether what is written is shown at once.
func onTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// wrong is an error as a mistake in the command line.
func wrong(err error) error { return settings.Wrong(err) }

// usage is a usageError with a text of its own.
func usage(format string, args ...any) error { return settings.Usage(format, args...) }

// interruption ends a context when the program is asked to end.
type interruption struct{ by atomic.Int32 }

// endSignals lists the signals that ask the program to end. The program goes on
// ignoring signals that its parent made it ignore, such as SIGHUP under nohup.
func endSignals() []os.Signal {
	var all []os.Signal
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			all = append(all, s)
		}
	}
	return all
}

// watch returns a context that ends with the first signal. A second one ends the
// program at once, as if nothing had been caught.
func (i *interruption) watch(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := endSignals()
	if len(signals) == 0 { // Notify without any would catch all
		return ctx, cancel
	}
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, signals...)
	go func() {
		select {
		case s := <-caught:
			if n, ok := s.(syscall.Signal); ok {
				i.by.Store(int32(n))
			}
			signal.Stop(caught)
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(caught); cancel() }
}

// interruptible returns what is computed by a function that takes long and knows no context, or the error of a context that ends before:
// the program is about to end then.
func interruptible[T any](ctx context.Context, compute func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		value, err := compute()
		done <- outcome{value, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
