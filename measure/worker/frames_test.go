package worker

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// Whatever a worker writes, and in whichever pieces its lines come: every pass that is handed
// on is whole and in its place, and its time does not go backwards.
func FuzzFrames(f *testing.F) {
	step := func(phase string, pass, index, start int) string {
		return fmt.Sprintf(`{"event":"step","step":{"phase":%q,"pass":%d,"index":%d,"context":4,"start_ns":%d,"end_ns":%d,"device_s":1e-8}}`+"\n",
			phase, pass, index, start, start+90)
	}
	token := func(pass, index, ns int) string {
		return fmt.Sprintf(`{"event":"token","token":{"pass":%d,"index":%d,"ns":%d,"ids":[7]}}`+"\n", pass, index, ns)
	}
	done := `{"event":"done","done":{"passes":2,"begin_ns":1,"end_ns":9000}}` + "\n"
	f.Add([]byte(step("prefill", 0, 0, 5)+token(0, 0, 95)+step("prefill", 1, 0, 200)+token(1, 0, 290)+done), uint8(0))
	f.Add([]byte(step("decode", 0, 1, 5)+token(0, 1, 95)+`{"event":"pass","pass":{"pass":0,"begin_ns":1,"end_ns":99}}`+"\n"+step(
		"decode", 1, 1, 100)+"\n\n"+done), uint8(1))
	f.Add([]byte(token(0, 0, 500)+step("prefill", 0, 0, 5)+token(1, 0, 600)), uint8(0))
	f.Add([]byte(step("request", 0, 0, 5)+`{"event":"error","error":{"kind":"internal","message":"x"}}`), uint8(2))
	f.Add([]byte(strings.Repeat("x", 70<<10)), uint8(3))
	phases := []Phase{Prefill, Decode, Request, "idle"}
	f.Fuzz(func(t *testing.T, in []byte, phase uint8) {
		p := &process{events: make(chan message, 4), quiet: make(chan struct{})}
		go func() {
			p.read(bytes.NewReader(in))
			close(p.events)
		}()
		var passes []Pass
		a := assembly{phase: phases[int(phase)%len(phases)], each: func(p Pass) { passes = append(passes, p) }}
		for m := range p.events {
			if m.err != nil || a.add(m.event) != nil || m.event.Done != nil {
				close(p.quiet)
				break
			}
		}
		a.close()
		for i, p := range passes {
			if p.Index != i || p.BeginNS < 0 || p.EndNS < p.BeginNS {
				t.Fatalf("pass %d: %+v", i, p)
			}
			for k, s := range p.Steps {
				if s.Pass != i || s.Index-p.Steps[0].Index != k || s.EndNS > p.EndNS || s.StartNS < 0 {
					t.Fatalf("step %d of pass %d: %+v of %+v", k, i, s, p)
				}
			}
			for k, s := range p.Tokens {
				if s.Pass != i || s.Index-p.Tokens[0].Index != k {
					t.Fatalf("token %d of pass %d: %+v", k, i, s)
				}
			}
		}
	})
}
