package child

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// An error quotes these parts of a log: enough for a Python traceback at its end, and for
// the first lines of a dump that is longer. Lines are cut.
const (
	headLines = 20
	tailLines = 40
	lineBytes = 400
)

// leftOut begins a line that says how many are left out.
const leftOut = "[... "

// dumps matches the first line of what a program writes when it dies: of Go and its
// signals, of Python, of C++ and of the C library.
var dumps = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(panic: |fatal error: |runtime: |SIG[A-Z]+: |unexpected fault address|Fatal Python error: |Traceback \(most ` +
		`recent call last\):|terminate called |\*\*\* )`)
})

// A tail keeps the end of what is written to it, and the first lines of the dump that the
// end is part of, or of all where there is no dump.
type tail struct {
	mu   sync.Mutex
	each func(line string) // is given each line as it ends; nil for none

	line  []byte   // unfinished last line, cut
	count int      // lines that have ended so far
	head  []string // the lines from number first on
	first int
	dump  bool     // head is of a dump
	last  []string // the last tailLines
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte("\n"))
		t.line = append(t.line, part[:min(len(part), lineBytes+1-len(t.line))]...)
		if p = rest; ended {
			line := t.text()
			t.add(line)
			if t.each != nil {
				t.each(line)
			}
			t.line = t.line[:0]
		}
	}
	return n, nil
}

// text is the line that has no end yet.
func (t *tail) text() string {
	if len(t.line) > lineBytes {
		return string(t.line[:lineBytes]) + "..."
	}
	return string(bytes.TrimRight(t.line, "\r"))
}

// add keeps a line. A dump that begins while the head of another is read is part of it.
func (t *tail) add(line string) {
	if dumps().MatchString(line) && (!t.dump || len(t.head) == headLines) {
		t.head, t.first, t.dump = nil, t.count, true
	}
	if len(t.head) < headLines {
		t.head = append(t.head, line)
	}
	if len(t.last) == tailLines {
		t.last = append(t.last[:0], t.last[1:]...)
	}
	t.last = append(t.last, line)
	t.count++
}

// lines gives what is kept, without blank lines at the ends, and says what is left out.
func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, count := t.last, t.count
	if len(t.line) > 0 {
		last, count = append(last[max(0, len(last)+1-tailLines):len(last):len(last)], t.text()), count+1
	}
	begin := count - len(last)
	head := t.head[:max(0, min(len(t.head), begin-t.first))]
	all := slices.Clone(head)
	if between := begin - t.first - len(head); len(head) > 0 && between > 0 {
		all = append(all, fmt.Sprintf(leftOut+"%d lines ...]", between))
	}
	return trim(append(all, last...))
}

// trim drops blank lines at both ends.
func trim(lines []string) []string {
	full := func(line string) bool { return strings.TrimSpace(line) != "" }
	first := slices.IndexFunc(lines, full)
	if first < 0 {
		return nil
	}
	for !full(lines[len(lines)-1]) {
		lines = lines[:len(lines)-1]
	}
	return lines[first:]
}
