package measure

import (
	"fmt"
	"time"
)

// between is how often passes are reported.
const between = time.Second / 4

// say reports how far the phase is, and how long it still takes at least where that is known.
func (w *watch) say() {
	report := w.s.set.Progress
	if report == nil || time.Since(w.said) < between {
		return
	}
	w.said = time.Now()
	switch w.stage {
	case warming:
		report(fmt.Sprintf("%s: pass %d of the warm-up, which ends when times are steady", w.phase, len(w.all)))
	case opening, measuring:
		report(fmt.Sprintf("%s: %d passes measured, %v left", w.phase, max(len(w.all)-w.from, 0), w.left().Round(time.Second)))
	case closing, apart:
		report(fmt.Sprintf("%s: passes without meters, to know what these cost", w.phase))
	case over:
		report("")
	}
}

// left is how long the measured passes still take: as many as are wanted, for as long as
// the meters' window lasts.
func (w *watch) left() time.Duration {
	if w.stage != measuring {
		return w.s.set.Window
	}
	spent, done := time.Since(w.begun), len(w.all)-w.from
	var passes time.Duration
	if done > 0 {
		passes = time.Duration(float64(spent) / float64(done) * float64(max(w.s.set.Repeats-done, 0)))
	}
	if w.s.meter == nil {
		return passes
	}
	return max(passes, w.s.set.Window-spent)
}
