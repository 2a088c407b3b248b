package native

import (
	"errors"
	"fmt"
	"math"

	"llmprof/measure/engine/native/cuda"
	"llmprof/measure/engine/native/safetensors"
	"llmprof/models"
)

// Options say what an Engine is to run.
type Options struct {
	Model     *models.Model
	Config    []byte // its config.json
	Weights   string // a folder of safetensors; "" for random weights
	Seed      uint64 // of random weights
	Batch     int    // sequences
	PromptLen int    // tokens of each prompt
	GenLen    int    // tokens to generate for each, the first from the prefill
	Device    int    // number of the GPU among those that are visible
	Libraries string // a folder to take the CUDA libraries from; "" for the usual places
	Cache     cuda.Cache
	Products  Products
	linear    []linearKernels // nil for linearShapes
}

// Products says what multiplies in a decode step.
type Products int

// The ways to multiply.
const (
	OwnProducts    Products = iota // own kernels for batches up to 32, else cuBLASLt
	CublasProducts                 // cuBLASLt for every batch
)

// An Engine is a model on a GPU with room for one batch of sequences. It
// belongs to the goroutine that opened it.
type Engine struct {
	opt   Options
	shape shape
	dev   *cuda.Device
	s     *cuda.Stream
	p     *program
	w     *weights
	b     *buffers
	plans map[planKey]*cuda.Matmul
	step  *cuda.Graph
	next  *cuda.Host[int32]
}

// Open loads a model, compiles the kernels unless the cache has them, and
// makes everything ready for Prefill.
func Open(opt Options) (e *Engine, err error) {
	sh, err := readShape(opt.Model, opt.Config)
	if err != nil {
		return nil, err
	}
	if err := opt.check(&sh); err != nil {
		return nil, err
	}
	var ckpt *safetensors.Checkpoint
	if opt.Weights != "" {
		if ckpt, err = safetensors.Open(opt.Weights); err != nil {
			return nil, err
		}
		defer ckpt.Close()
	}
	dev, err := cuda.Open(opt.Device, opt.Libraries)
	if err != nil {
		return nil, err
	}
	e = &Engine{opt: opt, shape: sh, dev: dev, plans: map[planKey]*cuda.Matmul{}}
	if err := e.load(ckpt); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// check says what cannot be run.
func (o *Options) check(s *shape) error {
	last := o.PromptLen + o.GenLen - 1
	switch {
	case o.Batch < 1 || o.PromptLen < 1 || o.GenLen < 1:
		return fmt.Errorf("native: batch %d, prompt length %d and generated length %d have to be 1 or more", o.Batch, o.PromptLen, o.GenLen)
	case o.Batch > 65535:
		return fmt.Errorf("native: a batch of %d is more than a grid of blocks holds, 65535", o.Batch)
	case last > math.MaxInt32/s.headDim:
		return fmt.Errorf("native: a context of %d tokens is more than this engine counts", last)
	case s.window > 0 && last > s.window:
		return fmt.Errorf("native: the model looks back %d tokens and the context grows to %d; this engine has no sliding window", s.window, last)
	}
	return nil
}

// load does what needs the GPU.
func (e *Engine) load(ckpt *safetensors.Checkpoint) error {
	e.w = layout(&e.shape)
	e.b = measureBuffers(&e.shape, &e.opt, e.dev.SMs)
	if err := e.dev.Room("the model with its cache and buffers", uint64(e.w.bytes()+e.b.total)); err != nil {
		return err
	}
	var err error
	if e.s, err = e.dev.NewStream(); err != nil {
		return err
	}
	linear := e.opt.linear
	if linear == nil {
		linear = linearShapes()
	}
	if e.p, err = compile(e.dev, e.opt.Libraries, e.opt.Cache, &e.shape, linear); err != nil {
		return err
	}
	if err := e.w.allocate(e.dev); err != nil {
		return err
	}
	if err := e.b.allocate(e.dev); err != nil {
		return err
	}
	if e.next, err = cuda.Pin[int32](e.dev, e.opt.Batch); err != nil {
		return err
	}
	if err := cuda.Upload(e.dev, e.b.frequencies, e.shape.rope.frequencies(e.shape.headDim)); err != nil {
		return err
	}
	if ckpt != nil {
		return e.w.load(e.dev, ckpt)
	}
	return e.w.random(e.p, e.s, e.opt.Seed)
}

// Device is the GPU that the engine runs on.
func (e *Engine) Device() cuda.Properties { return e.dev.Properties }

// Params is the number of the model's parameters.
func (e *Engine) Params() int64 { return e.w.params }

// Logits are the scores that the last Prefill or Step chose from.
func (e *Engine) Logits() ([][]float32, error) {
	flat := make([]float32, e.opt.Batch*e.shape.vocab)
	if err := e.s.Sync(); err != nil {
		return nil, err
	}
	if err := cuda.Download(e.dev, flat, e.b.logits); err != nil {
		return nil, err
	}
	out := make([][]float32, e.opt.Batch)
	for i := range out {
		out[i] = flat[i*e.shape.vocab : (i+1)*e.shape.vocab]
	}
	return out, nil
}

// Close frees the GPU's memory and gives it back. A second call does nothing.
func (e *Engine) Close() error {
	if e.dev == nil {
		return nil
	}
	var errs []error
	if e.s != nil {
		errs = append(errs, e.s.Sync())
	}
	if e.step != nil {
		errs = append(errs, e.step.Close())
	}
	for _, p := range e.plans {
		errs = append(errs, p.Close())
	}
	if e.next != nil {
		errs = append(errs, e.next.Close())
	}
	if e.p != nil {
		errs = append(errs, e.p.module.Close())
	}
	if e.s != nil {
		errs = append(errs, e.s.Close())
	}
	errs = append(errs, e.dev.Close())
	e.dev = nil
	return errors.Join(errs...)
}
