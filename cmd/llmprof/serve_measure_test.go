//go:build browser

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// A measurement of the page runs a real engine, tells how it goes, stops when it is told to, and its result
// stands over what is predicted.
func TestPageMeasures(t *testing.T) {
	results := t.TempDir()
	order := &serveOrder{results: results, python: python(t), offline: true}
	t.Setenv(asProgram, "1")         // this program is run to measure
	t.Setenv("OMP_NUM_THREADS", "1") // the model is small
	p := browse(t, "#model=distilgpt2&gpu=h100-sxm-80gb&engine=transformers&batch=1&prompt-len=16&gen-len=8", order)
	p.wait(t, settled)
	note := func() string { return p.text(t, "header .note") }
	wait := func(what string, in time.Duration, done func(note string) bool) {
		t.Helper()
		for end := time.Now().Add(in); !done(note()); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("no %s: the page says %q", what, note())
			}
		}
	}
	p.click(t, "Measure here")
	wait("progress", time.Minute, func(s string) bool { return strings.Contains(s, "transformers") || strings.Contains(s, "load") })
	p.click(t, "Stop measuring")
	wait("stop", 10*time.Second, func(s string) bool { return strings.Contains(s, "was stopped") })
	if left, _ := filepath.Glob(filepath.Join(results, "*.json")); len(left) > 0 { // the pattern is well-formed
		t.Errorf("a measurement that was stopped leaves %v", left)
	}
	for begin := time.Now(); ; {
		p.click(t, "Measure here")
		wait("end", 3*time.Minute, func(s string) bool {
			return strings.Contains(s, "is running") || strings.Contains(s, "measured figures") || strings.Contains(s, "exit status")
		})
		if s := note(); strings.Contains(s, "measured figures") {
			break
		} else if !strings.Contains(s, "is running") || time.Since(begin) > 2*stopTime { // the one that was stopped may still be ending
			t.Fatalf("the page says %q", s)
		}
		p.do(t, chromedp.Sleep(500*time.Millisecond))
	}
	p.wait(t, `document.querySelectorAll("#latency svg [data-mark=dot] path[stroke-width='2'], #latency svg `+
		`g[data-mark=dot][stroke-width='2'] path").length === 2`)
	if left, _ := filepath.Glob(filepath.Join(results, "*.json")); len(left) != 1 {
		t.Errorf("the folder of results has %v", left)
	}
	// A browser says of itself that it was answered that the stopped measurement is running.
	p.complaints = slices.DeleteFunc(p.complaints, func(c string) bool { return strings.Contains(c, "409 (Conflict)") })
	p.quiet(t)
}
