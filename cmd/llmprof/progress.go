package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"llmprof/internal/printable"
)

// A progressLine reports progress: on a terminal in the last line, which it writes anew each
// time; elsewhere in a plain line now and then.
type progressLine struct {
	to       io.Writer
	terminal bool
	mu       sync.Mutex
	shown    bool      // the last line is how far it is
	last     time.Time // time of the last plain line
}

// plainly is how often plain lines report progress.
const plainly = 10 * time.Second

// follow makes a follower that writes to standard error.
func (a *app) follow() *progressLine {
	return &progressLine{to: a.stderr, terminal: onTerminal(a.stderr), last: time.Now()}
}

// say writes a line that stays.
func (f *progressLine) say(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clear()
	fmt.Fprintln(f.to, "llmprof: "+printable.Text(line))
}

// progress shows a state; "" removes it.
func (f *progressLine) progress(line string) {
	line = printable.Line(line)
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

// clear removes the line of progress.
func (f *progressLine) clear() {
	if f.shown {
		fmt.Fprint(f.to, "\r\x1b[K")
		f.shown = false
	}
}

// timeLeft is how long so many further parts will take where some took so long, "" where nothing is known.
func timeLeft(spent time.Duration, parts, further int) string {
	if parts == 0 || further <= 0 {
		return ""
	}
	all := time.Duration(float64(spent) / float64(parts) * float64(further))
	return fmt.Sprintf("%v left", all.Round(time.Second))
}

// barLength is how many characters a full progress bar has.
const barLength = 24

// barTime is how often a progress bar is drawn.
const barTime = 250 * time.Millisecond

// counted shows a progress bar with the time left while parts of something are done; end
// takes it away.
func (f *progressLine) counted(what string) (part func(done, of int), end func()) {
	begun, drawn := time.Now(), time.Time{}
	return func(done, of int) {
		if time.Since(drawn) < barTime {
			return
		}
		drawn = time.Now()
		full := barLength * done / max(of, 1)
		bar := strings.Repeat("#", full) + strings.Repeat(".", barLength-full)
		f.progress(strings.TrimSuffix(fmt.Sprintf("%s [%s] %d/%d %s", what, bar, done, of, timeLeft(time.Since(begun), done, of-done)), " "))
	}, func() { f.progress("") }
}
