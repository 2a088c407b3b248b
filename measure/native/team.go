package native

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"llmprof/measure/native/cuda"
	"llmprof/models/safetensors"
)

// A Team is the engines of the GPUs that share a model. Each runs on a thread of its own, to which its
// GPU's context belongs. All engines get the same requests in the same order, because they wait for
// each other in the middle of each. A team of one is an engine on the caller's goroutine.
type Team struct {
	engines []*Engine
	jobs    []chan func(*Engine) // to the goroutine of each rank; a team of one has none
	ended   sync.WaitGroup
	begun   atomic.Int64 // how many jobs ranks have begun, all ranks together
	asked   int64        // how many jobs were given to all ranks
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
		if n < opt.device+opt.ranks() {
			return nil, &cuda.DeviceError{
				Text: fmt.Sprintf("tp %d needs the GPUs %d to %d: the driver shows %d of them (CUDA_VISIBLE_DEVICES chooses which)",
					opt.ranks(), opt.device, opt.device+opt.ranks()-1, n)}
		}
	}
	return openTeam(opt, func(rank int) (*cuda.Device, error) { return cuda.Open(opt.device+rank, opt.Libraries) }, (*Engine).compile)
}

// openTeam opens a team on the GPUs that open returns, with kernels that compile makes.
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

// load does all that needs GPUs. All ranks finish each step of it before any begins the next.
func (t *Team) load(ckpt *safetensors.Checkpoint, open func(rank int) (*cuda.Device, error), compile func(*Engine) error) error {
	err := t.Each(func(rank int, e *Engine) (err error) {
		e.dev, err = open(rank)
		return err
	})
	if err == nil {
		err = t.sameGPUs()
	}
	if err == nil {
		err = t.Each(func(_ int, e *Engine) error { return t.reach(e) })
	}
	if err == nil && t.Ranks() > 1 { // Ranks then find the kernels in the cache.
		err = t.first(compile)
	}
	if err == nil {
		err = t.Each(func(_ int, e *Engine) error { return e.load(ckpt, compile) })
	}
	if err == nil && t.Ranks() > 1 {
		err = t.Each(func(_ int, e *Engine) error { return e.link(t.engines) })
	}
	return err
}

// first compiles on one rank what the others will find in the cache. The module is unloaded and loaded
// again with the rest.
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

// sameGPUs returns an error unless all GPUs are of one kind. Kernels of different ranks need equal
// grids, and the slowest GPU would be measured.
func (t *Team) sameGPUs() error {
	a := t.engines[0].dev
	for _, e := range t.engines[1:] {
		if b := e.dev; a.Name != b.Name || a.SMs != b.SMs || a.Major != b.Major || a.Minor != b.Minor {
			return &cuda.DeviceError{Text: fmt.Sprintf("tp %d needs GPUs of one kind: %s is a %s, %s a %s (CUDA_VISIBLE_DEVICES chooses)",
				t.Ranks(), a.UUID, a.Name, b.UUID, b.Name)}
		}
	}
	return nil
}

// reach gives e access to the memory of the other ranks.
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

// start gives each of several ranks its goroutine.
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

// Lead is the engine of rank 0. It answers questions whose answer is the same for all ranks, and does
// no work of the GPU.
func (t *Team) Lead() *Engine { return t.engines[0] }

// Each runs do on all ranks at once and waits for them. Ranks begin together, as near as spinning
// threads do. Errors name their rank.
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

// explain adds the rank to an error, and its reason if it is known: a rank that waits too long for
// another ends its kernel.
func (e *Engine) explain(err error) error {
	if _, ok := errors.AsType[*cuda.Error](err); ok && e.timedOut != nil && e.timedOut.Data != nil && e.timedOut.Data[0] != 0 {
		return fmt.Errorf("native: rank %d waited for rank %d for more than %v: %w", e.shape.rank, e.timedOut.Data[0]-1, e.limit(), err)
	}
	return fmt.Errorf("native: rank %d: %w", e.shape.rank, err)
}

// Agree returns the tokens of all ranks, or an error unless they are equal.
func Agree[T comparable](of [][]T) ([]T, error) {
	for rank := range of {
		for i, v := range of[rank] {
			if len(of[rank]) != len(of[0]) || v != of[0][i] {
				return nil, fmt.Errorf("native: rank %d chose other tokens than rank 0 at number %d of %d: the sums over the ranks differ", rank, i,
					len(of[rank]))
			}
		}
	}
	return of[0], nil
}

// tokens are what all ranks return, which has to be equal.
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

// Prefill runs Engine.Prefill on every rank.
func (t *Team) Prefill() ([]int32, error) { return t.tokens((*Engine).Prefill) }

// Step runs Engine.Step on every rank.
func (t *Team) Step() ([]int32, error) { return t.tokens((*Engine).Step) }

// Prepare runs Engine.Prepare on every rank.
func (t *Team) Prepare() error {
	return t.Each(func(_ int, e *Engine) error { return e.Prepare() })
}

// SetPrompts gives every rank the prompts.
func (t *Team) SetPrompts(prompts [][]int) error {
	return t.Each(func(_ int, e *Engine) error { return e.SetPrompts(prompts) })
}

// Footprints are the footprints of the ranks.
func (t *Team) Footprints() []Footprint {
	var out []Footprint
	for _, e := range t.engines {
		out = append(out, e.footprint())
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

// Close closes all engines. It waits for all ranks before it frees memory, because others may still
// read it.
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
