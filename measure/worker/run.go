package worker

import (
	"context"
	"errors"
	"fmt"
)

// A Pass is one repeat of a phase, whole.
type Pass struct {
	Index   int
	Steps   []Step
	Tokens  []Token
	BeginNS int64
	EndNS   int64
}

// Run repeats a phase and hands on every pass that was finished, each before the
// next: also when the worker then fails, for a pass that has ended is never
// lost. An error of kind *Failure leaves the worker fit for another command.
func (w *Worker) Run(ctx context.Context, r Run, each func(Pass)) (*Done, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if err := w.send(Command{Do: "run", Run: &r}); err != nil {
		return nil, err
	}
	during := "run " + string(r.Phase)
	passes := assembly{phase: r.Phase, each: each}
	for {
		e, err := w.answer(ctx, during, w.limits.Silence)
		if err != nil {
			passes.close()
			return nil, err
		}
		if err := passes.add(e); err != nil {
			return nil, w.violated(during, e, err)
		}
		if e.Done != nil {
			return e.Done, nil
		}
	}
}

func (r Run) check() error {
	switch {
	case r.Phase != Prefill && r.Phase != Decode && r.Phase != Request:
		return Invalidf("no phase %q: there are prefill, decode, request", r.Phase)
	case r.Passes < 0 || !duration(r.Seconds):
		return Invalidf("a run of %d passes and %v s", r.Passes, r.Seconds)
	case r.Passes == 0 && r.Seconds == 0:
		return Invalidf("a run needs a number of passes or of seconds")
	}
	return nil
}

// An assembly builds passes from events, and checks their order.
type assembly struct {
	phase Phase
	each  func(Pass)
	now   *Pass // begun
	next  int   // index of the pass after it
	ns    int64 // the latest time seen
	ended bool  // now was closed by its own event
}

func (a *assembly) add(e Event) error {
	switch {
	case e.Step != nil:
		return a.step(*e.Step)
	case e.Token != nil:
		return a.token(*e.Token)
	case e.Pass != nil:
		return a.pass(*e.Pass)
	case e.Done != nil:
		a.ended = a.now != nil
		a.close()
		return a.done(*e.Done)
	}
	return fmt.Errorf("%s is no event of a run", e.Event)
}

func (a *assembly) step(s Step) error {
	if err := a.open(s.Pass, s.StartNS); err != nil {
		return err
	}
	want := len(a.now.Steps)
	if a.phase == Decode {
		want++
	}
	switch {
	case s.Phase != a.phase:
		return fmt.Errorf("a step of %q in a run of %q", s.Phase, a.phase)
	case s.Index != want:
		return fmt.Errorf("step %d of pass %d came when %d was due", s.Index, s.Pass, want)
	case s.StartNS < a.ns:
		return fmt.Errorf("time goes backwards: step %d of pass %d begins at %d ns, after %d ns", s.Index, s.Pass, s.StartNS, a.ns)
	}
	a.ns, a.now.EndNS = s.EndNS, s.EndNS
	a.now.Steps = append(a.now.Steps, s)
	return nil
}

func (a *assembly) token(t Token) error {
	if err := a.open(t.Pass, t.NS); err != nil {
		return err
	}
	if n := len(a.now.Tokens); n > 0 {
		last := a.now.Tokens[n-1]
		if t.Index != last.Index+1 || t.NS < last.NS {
			return fmt.Errorf("token %d at %d ns follows token %d at %d ns", t.Index, t.NS, last.Index, last.NS)
		}
	}
	a.ns, a.now.EndNS = max(a.ns, t.NS), max(a.now.EndNS, t.NS)
	a.now.Tokens = append(a.now.Tokens, t)
	return nil
}

func (a *assembly) pass(p PassEnd) error {
	if err := a.open(p.Pass, p.BeginNS); err != nil {
		return err
	}
	if p.EndNS < a.now.EndNS {
		return fmt.Errorf("pass %d ends at %d ns, before its last step at %d ns", p.Pass, p.EndNS, a.now.EndNS)
	}
	a.now.BeginNS, a.now.EndNS, a.ns, a.ended = p.BeginNS, p.EndNS, p.EndNS, true
	a.close()
	return nil
}

// open begins the pass that an event belongs to. The first event of the next
// pass ends the one before, for a worker need not send pass.
func (a *assembly) open(pass int, ns int64) error {
	if a.now != nil && pass == a.now.Index {
		return nil
	}
	if pass != a.next {
		return fmt.Errorf("an event of pass %d came when pass %d was due", pass, a.next)
	}
	a.ended = a.now != nil
	a.close()
	a.now = &Pass{Index: pass, BeginNS: ns, EndNS: ns}
	a.next++
	return nil
}

// close hands on the pass that has ended, and drops one that has not.
func (a *assembly) close() {
	if a.now != nil && a.ended && a.each != nil {
		a.each(*a.now)
	}
	a.now, a.ended = nil, false
}

func (a *assembly) done(d Done) error {
	if d.Passes != a.next {
		return fmt.Errorf("done counts %d passes, %d came", d.Passes, a.next)
	}
	if a.next > 0 && d.EndNS < a.ns {
		return errors.New("time goes backwards: the run ends before its last pass")
	}
	return nil
}
