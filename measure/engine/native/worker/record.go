package worker

import (
	"llmprof/measure/engine"
	"llmprof/measure/engine/native"
)

// A record keeps the events of one rank's pass in memory until the pass has ended.
type record struct {
	phase   engine.Phase
	pass    int
	ids     bool // send the tokens
	compare bool // keep them, for they are compared with other ranks'
	steps   int  // number of steps recorded
	events  []engine.Event
	chosen  []int32
}

func (r *record) add(e engine.Event) { r.events = append(r.events, e) }

// step times one step and records it with its token. The argument prompt is the number of
// prompt tokens in the cache, and 0 for the prefill.
func (r *record) step(t *native.Timer, prompt int, start func() error) error {
	timing, tokens, err := t.Time(start)
	if err != nil {
		return err
	}
	index, context := r.steps, 0
	if prompt > 0 {
		if r.phase == engine.Decode {
			index++ // there is no prefill before it
		}
		context = prompt + index - 1
	}
	device := float64(timing.Device)
	r.add(engine.Event{Event: "step", Step: &engine.Step{
		Phase: r.phase, Pass: r.pass, Index: index, Context: context, StartNS: timing.BeginNS, EndNS: timing.EndNS, DeviceS: &device,
	}})
	if r.compare {
		r.chosen = append(r.chosen, tokens...)
	}
	token := &engine.Token{Pass: r.pass, Index: index, NS: timing.EndNS}
	if r.ids {
		for _, id := range tokens {
			token.IDs = append(token.IDs, int(id))
		}
	}
	r.add(engine.Event{Event: "token", Token: token})
	r.steps++
	return nil
}
