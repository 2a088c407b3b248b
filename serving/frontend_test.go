package serving

import (
	"testing"

	"llmprof/internal/testkit/casetest"
	"llmprof/unit"
)

// passes runs an event loop until it has nothing more to do, and gives when requests reached the engine
// and tokens their clients.
func passes(f *frontend, at unit.Seconds) (entered, sent []unit.Seconds) {
	send := func(s *stream, at unit.Seconds) { s.unsent = 0; sent = append(sent, at) }
	for f.begin(at, send); f.end > 0; f.begin(at, send) {
		at = f.end
		f.finish(func(packed) { entered = append(entered, at) })
	}
	return entered, sent
}

// A request alone takes its own time, and one of many that come together that of nearly all.
func TestIntake(t *testing.T) {
	for _, n := range []int{1, 8, 128} {
		f := &frontend{apiTimes: apiTimes{intake: 1e-3, token: 1e-4}}
		for range n {
			f.enters(packed{})
		}
		entered, _ := passes(f, 5)
		if len(entered) != n {
			t.Fatalf("%d of %d requests reached the engine", len(entered), n)
		}
		casetest.Near(t, "intake", entered[n-1]-5, unit.Seconds(float64(n)*1e-3), 1e-9)
	}
}

// Tokens of several steps that wait for one client are sent together, and a request that comes while many
// get tokens waits for a pass at each of its stages.
func TestStreams(t *testing.T) {
	f := &frontend{apiTimes: apiTimes{intake: 1e-3, token: 1e-4}}
	all := make([]*stream, 100)
	for i := range all {
		all[i] = &stream{}
	}
	step := func() {
		outputs := make([]output, len(all))
		for i, q := range all {
			outputs[i] = output{q, 1, false}
		}
		f.hand(outputs)
	}
	step()
	step()
	_, sent := passes(f, 1)
	if len(sent) != 100 {
		t.Errorf("%d pieces, want one a client", len(sent))
	}
	casetest.Near(t, "two tokens", sent[99]-1, unit.Seconds(200*0.5e-4+100*0.5e-4), 1e-9)

	at, entered := unit.Seconds(2), unit.Seconds(0)
	for i := 0; entered == 0; i++ {
		step()
		if i == outputPasses+1 { // outputs come as fast as they are taken apart
			at = 2
			f.enters(packed{})
		}
		f.begin(at, func(s *stream, _ unit.Seconds) { s.unsent = 0 })
		at = f.end
		f.finish(func(packed) { entered = at })
	}
	if got := float64(entered - 2); got < 6*0.01 || got > 8*0.01 {
		t.Errorf("a request reaches the engine after %g s while passes take 0.01 s", got)
	}
}

// A stream that ends delays the tokens that are sent after its last one.
func TestEndOfStream(t *testing.T) {
	f := &frontend{apiTimes: apiTimes{token: 1e-4, closing: 1e-3}}
	f.hand([]output{{&stream{}, 1, true}, {&stream{}, 1, false}})
	_, sent := passes(f, 1)
	if len(sent) != 2 {
		t.Fatalf("%d tokens were sent, want 2", len(sent))
	}
	casetest.Near(t, "the token after the stream's last", sent[1]-sent[0], unit.Seconds(0.5e-4+1e-3), 1e-9)
}
