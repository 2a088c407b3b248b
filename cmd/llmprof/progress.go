package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// A follower says what is going on: on a terminal the last line is how far it is, and
// is written anew each time; elsewhere that is a plain line now and then.
type follower struct {
	to       io.Writer
	terminal bool
	mu       sync.Mutex
	shown    bool      // the last line is how far it is
	last     time.Time // that a plain line said so
}

// plainly is how often plain lines say how far it is.
const plainly = 10 * time.Second

// follow makes what says it on standard error.
func (a *app) follow() *follower {
	file, ok := a.stderr.(*os.File)
	return &follower{to: a.stderr, terminal: ok && term.IsTerminal(int(file.Fd())), last: time.Now()}
}

// say writes a line that stays.
func (f *follower) say(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clear()
	fmt.Fprintln(f.to, "llmprof: "+line)
}

// progress says how far it is; "" that it has ended.
func (f *follower) progress(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case line == "":
		f.clear()
	case f.terminal:
		f.clear()
		fmt.Fprint(f.to, "llmprof: "+line)
		f.shown = true
	case time.Since(f.last) >= plainly:
		fmt.Fprintln(f.to, "llmprof: "+line)
		f.last = time.Now()
	}
}

// clear takes back the line that says how far it is.
func (f *follower) clear() {
	if f.shown {
		fmt.Fprint(f.to, "\r\x1b[K")
		f.shown = false
	}
}
