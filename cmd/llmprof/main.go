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
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"llmprof/cmd/llmprof/internal/ask"
	"llmprof/redact"
)

func main() {
	debug.SetGCPercent(gcPercent)
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}

// gcPercent lets the heap grow to 20 MB before the first collection: most
// commands are over by then.
const gcPercent = 400

// run runs the command line args and returns the exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	var i interruption
	ctx, stop := i.watch(context.Background())
	defer stop()
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, env: env, secrets: redact.Of(args...), args: args}
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if ctx.Err() != nil {
		fmt.Fprintln(stderr, "llmprof: interrupted")
		return i.status()
	}
	a.logf("%v", err)
	var wrong usageError
	if !a.started || errors.As(err, &wrong) {
		return 2
	}
	return 1
}

// A usageError is a mistake in the command line.
type usageError = ask.UsageError

// wrong is an error of the command line.
func wrong(err error) error { return ask.Wrong(err) }

// usage is a usageError with a text of its own.
func usage(format string, args ...any) error { return ask.Usage(format, args...) }
