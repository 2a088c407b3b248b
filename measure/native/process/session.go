package process

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"

	"llmprof/measure/native"
	"llmprof/measure/native/cuda"
	"llmprof/measure/worker"
)

// timerText says what a step's times include.
const timerText = "host clock (CLOCK_MONOTONIC) from before the step is given to the GPU until its tokens are in host memory: " +
	"forward, argmax, the tokens' copy to the host, for a prefill also the prompt's copy to the GPU; device events around all of that"

// sharedText says which rank's times are reported where several GPUs share a model.
const sharedText = "; those of rank 0, whose sums over the ranks wait for the others"

// A session is a model that is loaded for one workload.
type session struct {
	load    *worker.Load
	clock   func() int64
	opt     native.Options
	team    *native.Team
	timers  []*native.Timer // one for each rank
	prompts [][][]int       // batches
	first   []int32         // tokens after the prompt in the cache; nil if it is not there
	loadS   float64
	notes   notes
}

// notes collects remarks on how the model was loaded, from all ranks and without repetition.
type notes struct {
	mu  sync.Mutex
	all []string
}

func (n *notes) add(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Contains(n.all, text) {
		n.all = append(n.all, text)
	}
}

// open loads the model, and runs one prefill and one decode step so that errors appear early.
func open(l *worker.Load, clock func() int64, engineFor Opener) (*session, error) {
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
	s.opt.Cache.Note = s.notes.add
	if s.team, err = engineFor(s.opt); err != nil {
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

func (s *session) tryOut() error {
	s.timers = make([]*native.Timer, s.team.Ranks())
	err := s.team.Each(func(rank int, e *native.Engine) (err error) {
		s.timers[rank], err = e.NewTimer(s.clock)
		return err
	})
	if err != nil {
		return err
	}
	if err := cuda.InTurn(s.team.Prepare, s.fill, func() error { return s.team.CheckNumbers("the prefill") }); err != nil {
		return err
	}
	s.first = nil
	if s.opt.GenLen == 1 {
		return nil
	}
	if _, err := s.team.Step(); err != nil {
		return err
	}
	return s.team.CheckNumbers("the first decode step")
}

func (s *session) close() error {
	err := s.team.Each(func(rank int, _ *native.Engine) error {
		if s.timers == nil || s.timers[rank] == nil {
			return nil
		}
		return s.timers[rank].Close()
	})
	return errors.Join(err, s.team.Close())
}

// ready says what was loaded.
func (s *session) ready() *worker.Ready {
	e := s.team.Lead()
	taken := map[string]string{
		"attention": "native", "cache": "static", "compile": "false", "dtype": map[bool]string{false: "bf16", true: "fp16"}[s.opt.FP16],
		"graph":    strconv.FormatBool(!s.opt.Eager),
		"products": e.GEMMText(), "sampling": "greedy",
	}
	if s.opt.Quantization != native.Unquantized {
		taken["quantization"] = s.opt.Quantization.String()
	}
	maps.Copy(taken, e.Versions())
	for what, file := range e.Files() {
		if file != "" {
			taken[what+" file"] = file
		}
	}
	var devices []worker.Device
	for _, d := range s.team.Devices() {
		devices = append(devices, worker.Device{Name: d.Name, UUID: d.UUID, PID: os.Getpid()})
	}
	text := timerText
	if len(devices) > 1 {
		taken["all-reduce"] = "native kernels over peer memory, float32"
		text += sharedText
	}
	ready := &worker.Ready{Devices: devices, LoadS: s.loadS, Timer: text, Options: taken, Params: e.Params(), PromptLen: s.opt.PromptLen}
	ready.Notes = append(ready.Notes, s.notes.all...)
	if s.opt.Spread {
		ready.Notes = append(ready.Notes,
			"random embeddings have a deviation of 20, so that the tokens of a random mixture choose experts evenly, as trained ones are made to")
	}
	return ready
}

// fill puts the first prompts into the cache.
func (s *session) fill() error {
	if err := s.team.SetPrompts(s.prompts[0]); err != nil {
		return err
	}
	first, err := s.team.Prefill()
	s.first = first
	return err
}

// prepare does the work that a phase needs once.
func (s *session) prepare(p worker.Phase) error {
	switch p {
	case worker.Prefill, worker.Request:
		s.first = nil // a pass overwrites the cache
		return nil
	case worker.Decode:
		if s.opt.GenLen < 2 {
			return worker.Invalidf("one generated token needs no decode step: ask for 2 or more")
		}
		if s.first != nil {
			return nil
		}
		return s.fill()
	}
	return worker.Invalidf("no phase %q: there are prefill, decode, request", p)
}

// pass runs one pass of a phase and returns the events of rank 0. All ranks generate the same
// tokens.
func (s *session) pass(p worker.Phase, index int) ([]worker.Event, error) {
	records := make([]record, s.team.Ranks())
	err := s.team.Each(func(rank int, e *native.Engine) error {
		records[rank] = record{phase: p, pass: index, ids: s.load.SaveOutputs, compare: len(records) > 1}
		return s.passOf(e, s.timers[rank], &records[rank])
	})
	if err != nil {
		return nil, err
	}
	all := make([][]int32, len(records))
	for rank := range records {
		all[rank] = records[rank].chosen
	}
	if _, err := native.Agree(all); err != nil {
		return nil, err
	}
	return records[0].events, nil
}

func (s *session) passOf(e *native.Engine, t *native.Timer, r *record) error {
	if r.phase == worker.Decode {
		if err := e.Rewind(s.first); err != nil {
			return err
		}
	}
	begin := s.clock()
	if r.phase != worker.Decode {
		batch := s.prompts[r.pass%len(s.prompts)]
		if err := r.step(t, 0, func() error {
			return errors.Join(e.SetPrompts(batch), e.StartPrefill())
		}); err != nil {
			return err
		}
	}
	if r.phase != worker.Prefill {
		for range s.opt.GenLen - 1 {
			if err := r.step(t, s.opt.PromptLen, e.StartStep); err != nil {
				return err
			}
		}
	}
	r.add(worker.Event{Event: "pass", Pass: &worker.PassEnd{Pass: r.pass, BeginNS: begin, EndNS: s.clock()}})
	return nil
}

// sizes counts the memory of the model, for all ranks together and for each rank. Loading
// allocates all of it, and runs one forward pass.
func (s *session) sizes() *worker.Sizes {
	var each []worker.Sizes
	for _, f := range s.team.Footprints() {
		activations, none := f.Peak-f.Params-f.Aligned-f.KV, int64(0)
		each = append(each, worker.Sizes{
			ParamsBytes: f.Params, BuffersBytes: f.Aligned, KVBytes: f.KV, KVTokens: f.Tokens,
			PeakBytes: &f.Peak, Activations: &activations, Reserved: &none,
		})
	}
	if len(each) == 1 {
		return &each[0]
	}
	peak, activations, none := int64(0), int64(0), int64(0)
	all := &worker.Sizes{KVTokens: each[0].KVTokens, PeakBytes: &peak, Activations: &activations, Reserved: &none, Ranks: each}
	for i := range each {
		r := &each[i]
		all.ParamsBytes, all.BuffersBytes, all.KVBytes = all.ParamsBytes+r.ParamsBytes, all.BuffersBytes+r.BuffersBytes, all.KVBytes+r.KVBytes
		peak, activations = peak+*r.PeakBytes, activations+*r.Activations
	}
	return all
}

// A record keeps the events of one rank's pass in memory until the pass has ended.
type record struct {
	phase   worker.Phase
	pass    int
	ids     bool // send the tokens
	compare bool // keep them, for they are compared with other ranks'
	steps   int  // number of steps recorded
	events  []worker.Event
	chosen  []int32
}

func (r *record) add(e worker.Event) { r.events = append(r.events, e) }

// step times one step and records it with its token. The argument prompt is the number of
// prompt tokens in the cache, and 0 for the prefill.
func (r *record) step(t *native.Timer, prompt int, start func() error) error {
	timing, tokens, err := t.Time(start)
	if err != nil {
		return err
	}
	index, context := r.steps, 0
	if prompt > 0 {
		if r.phase == worker.Decode {
			index++ // there is no prefill before it
		}
		context = prompt + index - 1
	}
	device := float64(timing.Device)
	r.add(worker.Event{Event: "step", Step: &worker.Step{
		Phase: r.phase, Pass: r.pass, Index: index, Context: context, StartNS: timing.BeginNS, EndNS: timing.EndNS, DeviceS: &device,
	}})
	if r.compare {
		r.chosen = append(r.chosen, tokens...)
	}
	token := &worker.Token{Pass: r.pass, Index: index, NS: timing.EndNS}
	if r.ids {
		for _, id := range tokens {
			token.IDs = append(token.IDs, int(id))
		}
	}
	r.add(worker.Event{Event: "token", Token: token})
	r.steps++
	return nil
}

// randomPrompts are one batch of token ids.
func randomPrompts(l *worker.Load, vocab int) [][][]int {
	r := rand.New(rand.NewPCG(l.Seed, 0))
	batch := make([][]int, l.Batch)
	for i := range batch {
		batch[i] = make([]int, l.PromptLen)
		for k := range batch[i] {
			batch[i][k] = r.IntN(vocab)
		}
	}
	return [][][]int{batch}
}

// givenPrompts cuts the given sequences to one length and fills whole batches, starting over
// where the sequences end. It returns none where none are given.
func givenPrompts(l *worker.Load, vocab int) ([][][]int, error) {
	if len(l.Prompts) == 0 {
		return nil, nil
	}
	length := l.PromptLen
	if length == 0 {
		length = len(l.Prompts[0])
	}
	for i, p := range l.Prompts {
		switch {
		case l.PromptLen == 0 && len(p) != length:
			return nil, worker.Invalidf(
				"prompt %d has %d tokens, prompt 0 has %d: a batch needs equal ones, so set a prompt length that all of them reach", i, len(p), length)
		case len(p) < max(length, 1):
			return nil, worker.Invalidf("prompt %d has %d tokens, %d are needed", i, len(p), max(length, 1))
		}
		for _, t := range p {
			if t < 0 || t >= vocab {
				return nil, worker.Invalidf("prompt %d has the token %d: the vocabulary has %d", i, t, vocab)
			}
		}
	}
	n := (len(l.Prompts) + l.Batch - 1) / l.Batch
	batches := make([][][]int, n)
	for i := range batches {
		for k := range l.Batch {
			batches[i] = append(batches[i], l.Prompts[(i*l.Batch+k)%len(l.Prompts)][:length])
		}
	}
	return batches, nil
}
