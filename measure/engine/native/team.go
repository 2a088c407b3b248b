package native

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"llmprof/measure/engine/native/cuda"
	"llmprof/measure/engine/native/safetensors"
)

// A Team is the engines of the GPUs that share a model, each on a thread of its
// own, which its GPU's context belongs to. All of them have to be asked the same,
// in the same order, for they wait for each other in the middle of it. A team of
// one is an engine on the caller's own goroutine.
type Team struct {
	engines []*Engine
	jobs    []chan func(*Engine) // to the goroutine of each rank; none for a team of one
	ended   sync.WaitGroup
	begun   atomic.Int64 // jobs that ranks came to, all together
	asked   int64        // jobs
}

// OpenTeam is Open on Options.TP GPUs.
func OpenTeam(opt Options) (*Team, error) {
	if opt.ranks() > 1 {
		if _, err := newEngine(opt, 0); err != nil {
			return nil, err
		}
		n, err := cuda.Count(opt.Libraries)
		if err != nil {
			return nil, err
		}
		if n < opt.Device+opt.ranks() {
			return nil, &cuda.DeviceError{Text: fmt.Sprintf("tp %d needs the GPUs %d to %d: the driver shows %d of them (CUDA_VISIBLE_DEVICES chooses which)",
				opt.ranks(), opt.Device, opt.Device+opt.ranks()-1, n)}
		}
	}
	return openTeam(opt, func(rank int) (*cuda.Device, error) { return cuda.Open(opt.Device+rank, opt.Libraries) }, (*Engine).compile)
}

// openTeam opens it on GPUs that open gives, with kernels that compile makes.
func openTeam(opt Options, open func(rank int) (*cuda.Device, error), compile func(*Engine) error) (t *Team, err error) {
	ckpt, err := opt.open()
	if err != nil {
		return nil, err
	}
	defer ckpt.Close()
	t = &Team{}
	for rank := range opt.ranks() {
		e, err := newEngine(opt, rank)
		if err != nil {
			return nil, err
		}
		t.engines = append(t.engines, e)
	}
	t.start()
	if err := t.load(ckpt, open, compile); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// load does what needs GPUs. Each step of it is done on all of them before the
// next is begun on any.
func (t *Team) load(ckpt *safetensors.Checkpoint, open func(rank int) (*cuda.Device, error), compile func(*Engine) error) error {
	err := t.Each(func(rank int, e *Engine) (err error) {
		e.dev, err = open(rank)
		return err
	})
	if err == nil {
		err = t.sameOnAllRanks()
	}
	if err == nil {
		err = t.Each(func(_ int, e *Engine) error { return t.reach(e) })
	}
	if err == nil && t.Ranks() > 1 { // so that ranks find kernels in the cache
		err = t.first(compile)
	}
	if err == nil {
		err = t.Each(func(_ int, e *Engine) error { return e.load(ckpt, func() error { return compile(e) }) })
	}
	if err == nil && t.Ranks() > 1 {
		err = t.Each(func(_ int, e *Engine) error { return e.link(t.engines) })
	}
	return err
}

// first compiles on one rank what the others are to find in the cache, for the rings that
// they load, and drops it there: the module is loaded again with the rest.
func (t *Team) first(compile func(*Engine) error) error {
	return t.Each(func(rank int, e *Engine) error {
		if rank > 0 {
			return nil
		}
		if e.opt.like != nil {
			e.opt.like(&e.dev.Properties)
		}
		e.fitTo(&e.dev.Properties)
		if err := compile(e); err != nil {
			return err
		}
		err := e.p.module.Close()
		e.p = nil
		return err
	})
}

// alike holds that all GPUs are of one kind: meetings are of as many blocks on each,
// and the slowest would be measured.
func (t *Team) sameOnAllRanks() error {
	a := t.engines[0].dev
	for _, e := range t.engines[1:] {
		if b := e.dev; a.Name != b.Name || a.SMs != b.SMs || a.Major != b.Major || a.Minor != b.Minor {
			return &cuda.DeviceError{Text: fmt.Sprintf("tp %d needs GPUs of one kind: %s is a %s, %s a %s (CUDA_VISIBLE_DEVICES chooses)",
				t.Ranks(), a.UUID, a.Name, b.UUID, b.Name)}
		}
	}
	return nil
}

// reach opens the others' memory to e.
func (t *Team) reach(e *Engine) error {
	for _, other := range t.engines {
		if other == e {
			continue
		}
		if err := e.dev.ReachPeer(other.dev); err != nil {
			return err
		}
	}
	return nil
}

// start gives each rank of several its goroutine.
func (t *Team) start() {
	if len(t.engines) == 1 {
		return
	}
	for _, e := range t.engines {
		jobs := make(chan func(*Engine))
		t.jobs = append(t.jobs, jobs)
		t.ended.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for do := range jobs {
				do(e)
			}
		})
	}
}

// Ranks is how many GPUs share the model.
func (t *Team) Ranks() int { return len(t.engines) }

// Lead is the engine of rank 0: it is asked what is the same for all, and for
// nothing that its GPU does.
func (t *Team) Lead() *Engine { return t.engines[0] }

// Each does the same on all ranks at once and waits for them. They begin together,
// as near as spinning threads do. An error says which rank's it is.
func (t *Team) Each(do func(rank int, e *Engine) error) error {
	if t.jobs == nil {
		return do(0, t.engines[0])
	}
	t.asked++
	all := t.asked * int64(len(t.engines))
	errs := make([]error, len(t.engines))
	var done sync.WaitGroup
	for rank := range t.engines {
		done.Add(1)
		t.jobs[rank] <- func(e *Engine) {
			defer done.Done()
			for t.begun.Add(1); t.begun.Load() < all; {
				runtime.Gosched()
			}
			if err := do(rank, e); err != nil {
				errs[rank] = e.explain(err)
			}
		}
	}
	done.Wait()
	return errors.Join(errs...)
}

// explain says which rank's error it is, and what is known of its reason: a rank
// that waits too long for another ends its own kernel.
func (e *Engine) explain(err error) error {
	var failed *cuda.Error
	if errors.As(err, &failed) && e.timedOut != nil && e.timedOut.Data != nil && e.timedOut.Data[0] != 0 {
		return fmt.Errorf("native: rank %d waited for rank %d for more than %v: %w", e.shape.rank, e.timedOut.Data[0]-1, e.limit(), err)
	}
	return fmt.Errorf("native: rank %d: %w", e.shape.rank, err)
}

// Agree holds that the tokens of all ranks are equal, and gives them.
func Agree[T comparable](of [][]T) ([]T, error) {
	for rank := range of {
		for i, v := range of[rank] {
			if len(of[rank]) != len(of[0]) || v != of[0][i] {
				return nil, fmt.Errorf("native: rank %d chose other tokens than rank 0 at number %d of %d: the sums over the ranks differ", rank, i, len(of[rank]))
			}
		}
	}
	return of[0], nil
}

// tokens are what all ranks give, which has to be the same.
func (t *Team) tokens(do func(e *Engine) ([]int32, error)) ([]int32, error) {
	all := make([][]int32, t.Ranks())
	err := t.Each(func(rank int, e *Engine) (err error) {
		all[rank], err = do(e)
		return err
	})
	if err != nil {
		return nil, err
	}
	return Agree(all)
}

// Prefill is that of every rank.
func (t *Team) Prefill() ([]int32, error) { return t.tokens((*Engine).Prefill) }

// Step is that of every rank.
func (t *Team) Step() ([]int32, error) { return t.tokens((*Engine).Step) }

// Prepare is that of every rank.
func (t *Team) Prepare() error {
	return t.Each(func(_ int, e *Engine) error { return e.Prepare() })
}

// SetPrompts gives every rank the prompts.
func (t *Team) SetPrompts(prompts [][]int) error {
	return t.Each(func(_ int, e *Engine) error { return e.SetPrompts(prompts) })
}

// Logits are the scores that the last Prefill or Step chose from, of the whole
// vocabulary.
func (t *Team) Logits() ([][]float32, error) {
	parts := make([][][]float32, t.Ranks())
	err := t.Each(func(rank int, e *Engine) (err error) {
		parts[rank], err = e.scores()
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make([][]float32, len(parts[0]))
	for i := range out {
		for _, p := range parts {
			out[i] = append(out[i], p[i]...)
		}
	}
	return out, nil
}

// Footprints are what each rank holds.
func (t *Team) Footprints() []Footprint {
	var out []Footprint
	for _, e := range t.engines {
		out = append(out, e.Footprint())
	}
	return out
}

// Devices are the GPUs in the order of the ranks.
func (t *Team) Devices() []cuda.Properties {
	var out []cuda.Properties
	for _, e := range t.engines {
		out = append(out, e.Device())
	}
	return out
}

// Close closes all engines. No rank gives memory back before all have come to
// their end, for others may still read it.
func (t *Team) Close() error {
	if len(t.engines) == 0 {
		return nil
	}
	err := t.Each(func(_ int, e *Engine) error {
		if e.s == nil {
			return nil
		}
		return e.s.Sync()
	})
	err = errors.Join(err, t.Each(func(_ int, e *Engine) error { return e.Close() }))
	for _, jobs := range t.jobs {
		close(jobs)
	}
	t.ended.Wait()
	t.engines, t.jobs = nil, nil
	return err
}
