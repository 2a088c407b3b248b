package worker

import (
	"errors"
	"os"
	"strconv"

	"llmprof/measure/engine"
	"llmprof/measure/engine/native"
	"llmprof/measure/engine/native/cuda"
)

// timerText says what a step's times include.
const timerText = "host clock (CLOCK_MONOTONIC) from before the step is given to the GPU until its tokens are in host memory: " +
	"forward, argmax, the tokens' copy to the host, for a prefill also the prompt's copy to the GPU; device events around all of that"

// A session is a model that is loaded for one workload.
type session struct {
	load    *engine.Load
	clock   func() int64
	opt     native.Options
	e       *native.Engine
	timer   *native.Timer
	prompts [][][]int // batches
	first   []int32   // tokens after the prompt in the cache; nil if it is not there
	loadS   float64
}

// open loads, and makes one prefill and a step, so that what cannot run fails now.
func open(l *engine.Load, clock func() int64, engineFor Opener) (*session, error) {
	begin := clock()
	o, err := options(l)
	if err != nil {
		return nil, err
	}
	s := &session{load: l, clock: clock, opt: o}
	if s.prompts, err = givenPrompts(l, o.Model.Vocab); err != nil {
		return nil, err
	}
	s.opt.Cache = cuda.UserCache()
	if s.e, err = engineFor(s.opt); err != nil {
		return nil, err
	}
	if len(s.prompts) == 0 { // not before it is known that the batch fits
		s.prompts = randomPrompts(l, o.Model.Vocab)
	}
	if err := s.tryOut(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.loadS = float64(clock()-begin) / 1e9
	return s, nil
}

func (s *session) tryOut() (err error) {
	if s.timer, err = s.e.NewTimer(s.clock); err != nil {
		return err
	}
	if err := s.e.Prepare(); err != nil {
		return err
	}
	if err := s.fill(); err != nil {
		return err
	}
	if s.opt.GenLen > 1 {
		if _, err := s.e.Step(); err != nil {
			return err
		}
	}
	s.first = nil
	return nil
}

func (s *session) close() error {
	var err error
	if s.timer != nil {
		err = s.timer.Close()
	}
	return errors.Join(err, s.e.Close())
}

// ready says what was loaded.
func (s *session) ready() *engine.Ready {
	d := s.e.Device()
	taken := map[string]string{
		"attention": "native", "cache": "static", "compile": "false", "dtype": "bf16", "graph": strconv.FormatBool(!s.opt.Eager),
		"products": s.e.ProductsText(), "sampling": "greedy",
	}
	for what, version := range s.e.Versions() {
		taken[what] = version
	}
	return &engine.Ready{
		Devices: []engine.Device{{Name: d.Name, UUID: d.UUID, PID: os.Getpid()}},
		LoadS:   s.loadS, Timer: timerText, Options: taken, Params: s.e.Params(), PromptLen: s.opt.PromptLen,
	}
}

// fill puts the first prompts into the cache.
func (s *session) fill() error {
	if err := s.e.SetPrompts(s.prompts[0]); err != nil {
		return err
	}
	first, err := s.e.Prefill()
	s.first = first
	return err
}

// prepare does what a phase needs once.
func (s *session) prepare(p engine.Phase) error {
	switch p {
	case engine.Idle:
		return nil
	case engine.Prefill, engine.Request:
		s.first = nil // a pass overwrites the cache
		return nil
	case engine.Decode:
		if s.opt.GenLen < 2 {
			return invalid("one generated token needs no decode step: ask for 2 or more")
		}
		if s.first != nil {
			return nil
		}
		return s.fill()
	}
	return invalid("no phase %q: there are prefill, decode, request, idle", p)
}

// pass makes one pass of a phase and gives its events.
func (s *session) pass(p engine.Phase, index int) ([]engine.Event, error) {
	r := record{phase: p, pass: index, ids: s.load.SaveOutputs}
	if p == engine.Decode {
		if err := s.e.Rewind(s.first); err != nil {
			return nil, err
		}
	}
	begin := s.clock()
	if p != engine.Decode {
		batch := s.prompts[index%len(s.prompts)]
		if err := r.step(s.timer, 0, func() error {
			return errors.Join(s.e.SetPrompts(batch), s.e.StartPrefill())
		}); err != nil {
			return nil, err
		}
	}
	if p != engine.Prefill {
		for range s.opt.GenLen - 1 {
			if err := r.step(s.timer, s.opt.PromptLen, s.e.StartStep); err != nil {
				return nil, err
			}
		}
	}
	r.add(engine.Event{Event: "pass", Pass: &engine.PassEnd{Pass: index, BeginNS: begin, EndNS: s.clock()}})
	return r.events, nil
}

// sizes counts what the model takes. All of it is taken when it is loaded, and
// a forward ran then.
func (s *session) sizes() *engine.Sizes {
	f := s.e.Footprint()
	activations, none := f.Peak-f.Params-f.Aligned-f.KV, int64(0)
	return &engine.Sizes{
		ParamsBytes: f.Params, BuffersBytes: f.Aligned, KVBytes: f.KV, KVTokens: f.Tokens,
		PeakBytes: &f.Peak, Activations: &activations, Reserved: &none,
	}
}
