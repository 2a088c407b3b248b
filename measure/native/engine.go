package native

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"llmprof/analytic/operator"
	"llmprof/measure/native/cuda"
	"llmprof/models"
	"llmprof/models/safetensors"
)

// Options say what an Engine is to run.
type Options struct {
	Model   *models.Model
	Config  []byte // config.json of the model
	Weights string // a folder of safetensors; "" for random weights
	Seed    uint64 // seed of random weights
	operator.Workload
	Eager     bool   // Queue each step's kernels anew and record no graph.
	TP        int    // GPUs that share the model; 0 is 1
	Libraries string // a folder to take the CUDA libraries from; "" for the usual places
	Cache     cuda.Cache
	GEMM      GEMM

	// Spread makes random embeddings so large that the layers hardly change a token's direction, and
	// each token chooses its own experts (spreadScale). It makes times of MoE models realistic, and
	// does not change checkpoints.
	Spread bool

	FP16         bool         // activations, cache and 16-bit weights in fp16, not in bf16
	Quantization Quantization // format of the weights of the blocks' linear layers

	device      int                    // number of the first GPU among those that are visible
	like        func(*cuda.Properties) // It makes the GPU look like another one, to try that one's kernels; nil changes nothing.
	skinny      []gemmKernels          // nil for skinnyGEMMs
	wgmma       []gemmKernels          // GEMMs of batch 17 to 64 on Hopper; nil for wgmmaGEMMs
	fewGated    bool                   // gate_up_proj at batch 1 has few rows for each multiprocessor (fewGated).
	defines     []string               // further defines of the kernels
	unfused     bool                   // The operators of a MoE decode step are separate kernels.
	splits      int                    // parts of the context in decode attention; 0 for the rule
	sms         int                    // GEMMs are divided among so many multiprocessors; 0 for the GPU's
	oneShot     int                    // bytes of an all-reduce that every rank reads whole; 0 for oneShotBytes
	staged      int                    // bytes of a checkpoint that are read at a time, a multiple of 4; 0 for stagedBytes
	peerTimeout time.Duration          // how long a rank waits for another; 0 for peerTimeout
}

// GEMM says what does the GEMMs of a decode step.
type GEMM int

// These are the choices for the GEMMs of a decode step.
const (
	EngineGEMM GEMM = iota // the engine's kernels for the batches that they support, cuBLASLt for others
	CublasGEMM             // cuBLASLt for every batch
)

// rings are the shapes of the engine's GEMM kernels.
func (o *Options) rings() []gemmKernels {
	if o.skinny != nil {
		return o.skinny
	}
	gemm := skinnyGEMMs()
	if o.ranks() > 1 {
		gemm[2].swigluRing.stages = 4 // Ranks have fewer rows; a shorter ring leaves room for the next GEMM.
	}
	if o.fewGated {
		gemm[0].swigluRing = ring{tiles: 2, depth: 256, stages: 5}
	}
	return slices.Concat(gemm, o.wgmma, quantizedGEMMs(o.Quantization))
}

// An Engine is a model on a GPU, or one rank's part of a model, with room for one batch of sequences.
// It belongs to the goroutine that opened it.
type Engine struct {
	opt   Options
	shape shape
	dev   *cuda.Device
	s     *cuda.Stream
	p     *program
	w     *weights
	b     *buffers
	plans map[planKey]*cuda.Matmul

	prefill, decode sequence        // the calls of a prefill and of a decode step
	megakernelPlan  *megakernelPlan // nil if the megakernel is not used

	step     *cuda.Graph // nil if Eager
	left     int         // steps that the cache has room for
	next     *cuda.Host[int32]
	in       *cuda.Host[int32]  // prompts, or first tokens, to be copied to the GPU
	timedOut *cuda.Host[uint32] // one more than the rank that another one waited for too long; nil for one rank
	nvrtc    string             // version of the compiler
	from     string             // file of the compiler
	held     []func() error     // releases what was taken, in that order
}

// Open loads a model on one GPU, compiles the kernels unless the cache has them, and prepares
// everything for Prefill. It refuses what it cannot run or read before it touches the GPU, and what
// does not fit before it allocates memory.
func Open(opt Options) (*Engine, error) {
	if opt.ranks() != 1 {
		return nil, unsupported("tp %d is of a Team: an engine by itself has the whole model", opt.TP)
	}
	t, err := OpenTeam(opt)
	if err != nil {
		return nil, err
	}
	return t.Lead(), nil
}

// open checks all that can be checked without a GPU, and opens the checkpoint; it returns nil for
// random weights.
func (o *Options) open() (*safetensors.Checkpoint, error) {
	e, err := newEngine(*o, 0)
	if err != nil || o.Weights == "" {
		return nil, err
	}
	ckpt, err := safetensors.Open(o.Weights)
	if err != nil {
		return nil, &WeightsError{err}
	}
	if err := e.w.check(ckpt); err != nil {
		ckpt.Close()
		return nil, &WeightsError{err}
	}
	return ckpt, nil
}

// newEngine makes a rank's engine without a GPU.
func newEngine(opt Options, rank int) (*Engine, error) {
	sh, err := opt.shape(rank)
	if err != nil {
		return nil, err
	}
	sh.sliding = sh.window > 0 && opt.PromptLen+opt.GenLen-1 > sh.window
	return &Engine{opt: opt, shape: sh, w: layout(&sh), plans: map[planKey]*cuda.Matmul{}}, nil
}

// A WeightsError is a checkpoint that cannot be read, or is not the model's.
type WeightsError struct{ Err error }

// Error is what is wrong with it.
func (e *WeightsError) Error() string { return "native: weights: " + e.Err.Error() }

// Unwrap gives what is wrong.
func (e *WeightsError) Unwrap() error { return e.Err }

// maxBytes is more memory than a GPU has; sizes up to it are exact.
const maxBytes = 1 << 42

// check returns why the engine cannot run the options.
func (o *Options) check(s *shape) error {
	last := o.PromptLen + o.GenLen - 1
	switch {
	case o.Batch < 1 || o.PromptLen < 1 || o.GenLen < 1:
		return unsupported("batch %d, prompt length %d and generated length %d have to be 1 or more", o.Batch, o.PromptLen, o.GenLen)
	case o.Batch > 65535:
		return unsupported("a batch of %d is more than a grid of blocks holds, 65535", o.Batch)
	case o.PromptLen > math.MaxInt32 || o.GenLen > math.MaxInt32 || last > math.MaxInt32/s.headDim:
		return unsupported("a context of %d tokens is more than this engine counts", last)
	case s.experts > 0 && s.maxTiles(s.topK*max(o.PromptLen, maxRows, o.Batch), pairsOfTile) > maxGridY:
		return unsupported("prompts of %d tokens, each of which takes %d experts, are more than a grid of blocks holds", o.PromptLen, s.topK)
	}
	if needed := s.leastBytes(o.Batch, last); needed > maxBytes {
		return unsupported("weights and the cache of %d sequences of %d tokens need %.3g GB, more than any GPU has", o.Batch, last, needed/1e9)
	}
	return nil
}

// leastBytes is the size of the weights and of a cache as a float, because it may exceed an integer.
func (s *shape) leastBytes(batch, context int) float64 {
	hidden, inner, tokens, layers := float64(s.hidden), float64(s.inner), float64(s.tokens), float64(s.layers)
	weights := layers * hidden * (float64(s.qkvWidth()+s.attWidth()) + 3*inner*float64(max(s.experts, 1)))
	bits := 16.0
	if s.quant != Unquantized {
		bits = float64(s.quant)
	}
	return bits/8*weights + 2*tokens*hidden + 4*layers*float64(batch)*float64(s.kvHeads*s.headDim)*float64(context)
}

// load does all that needs the GPU; compile makes its kernels.
func (e *Engine) load(ckpt *safetensors.Checkpoint, compile func(*Engine) error) error {
	if e.opt.like != nil {
		e.opt.like(&e.dev.Properties)
	}
	if err := tooOld(&e.dev.Properties, &e.shape); err != nil {
		return err
	}
	e.fitTo(&e.dev.Properties)
	e.b = measureBuffers(&e.shape, &e.opt, e.dev.SMs)
	if err := e.dev.Room("the model with its cache and buffers", uint64(e.w.bytes()+e.b.total+cuda.WorkspaceBytes)); err != nil {
		return err
	}
	var err error
	if e.s, err = e.dev.NewStream(); err != nil {
		return err
	}
	e.held = append(e.held, e.s.Close)
	if err := compile(e); err != nil {
		return err
	}
	e.held = append(e.held, e.p.module.Close)
	err = cuda.InTurn(func() error { return e.w.allocate(e.dev) }, func() error { return e.b.allocate(e.dev) }, e.pin, e.uploadTables)
	if err != nil {
		return err
	}
	e.prefill, e.decode = e.prefillSequence(), e.decodeSequence()
	l := &loader{
		w: e.w, s: e.s, dev: e.dev, k: e.p, scratch: e.b.dequantized, room: e.shape.scratchOf(), float: e.shape.float(), spread: e.opt.Spread,
		ranks: e.shape.ranks, staged: e.opt.staged,
	}
	if ckpt != nil {
		return l.load(ckpt)
	}
	return l.random(e.opt.Seed, e.shape.normStart())
}

// pin allocates the host's memory that the GPU writes to and reads.
func (e *Engine) pin() (err error) {
	if e.next, err = cuda.Pin[int32](e.dev, e.opt.Batch); err != nil {
		return err
	}
	e.held = append(e.held, e.next.Close)
	if e.in, err = cuda.Pin[int32](e.dev, e.opt.Batch*e.opt.PromptLen); err != nil {
		return err
	}
	e.held = append(e.held, e.in.Close)
	if e.shape.ranks == 1 {
		return nil
	}
	if e.timedOut, err = cuda.Pin[uint32](e.dev, 1); err != nil {
		return err
	}
	e.timedOut.Data[0] = 0
	e.held = append(e.held, e.timedOut.Close)
	return nil
}

// fitTo chooses the kernels' shapes for the GPU at hand.
func (e *Engine) fitTo(p *cuda.Properties) {
	e.opt.sms = cmp.Or(e.opt.sms, p.SMs)
	e.opt.fewGated = e.shape.fewGated(e.opt.sms)
	e.shape.megakernel = e.shape.megakernelGrid(p, e.opt.sms, e.opt.stepParts())
	if p.Major == 9 && e.opt.GEMM == EngineGEMM && e.opt.wgmma == nil {
		e.opt.wgmma = wgmmaGEMMs(&e.shape, e.opt.Batch, e.opt.sms)
	}
}

// uploadTables copies the RoPE frequencies and the megakernel's table of layers to the GPU.
func (e *Engine) uploadTables() error {
	if err := cuda.Upload(e.dev, e.b.frequencies, e.shape.rope.frequencies(e.shape.headDim)); err != nil {
		return err
	}
	if e.shape.localRope.Theta != 0 {
		if err := cuda.Upload(e.dev, e.b.localFrequencies, e.shape.localRope.frequencies(e.shape.headDim)); err != nil {
			return err
		}
	}
	if e.megakernelPlan = e.planMegakernel(); e.usesMegakernel() {
		if err := cuda.Upload(e.dev, e.b.layerTable, e.layerTable()); err != nil {
			return err
		}
	}
	return nil
}

// tooOld returns what a GPU's generation lacks.
func tooOld(p *cuda.Properties, s *shape) error {
	switch {
	case p.Major < 7:
		return unsupported("%s has compute capability %d.%d; this engine's kernels need 7.0 or newer", p.Name, p.Major, p.Minor)
	case p.Major < 8 && !s.fp16:
		return unsupported("%s has compute capability %d.%d, and tensor cores for bf16 came with 8.0: it runs in fp16 (--dtype fp16)", p.Name,
			p.Major, p.Minor)
	}
	return nil
}

// compile makes the kernels, or takes them from the cache.
func (e *Engine) compile() error {
	if err := tooOld(&e.dev.Properties, &e.shape); err != nil { // A team compiles before it loads.
		return err
	}
	c, err := cuda.OpenCompiler(e.opt.Libraries)
	if err != nil {
		return err
	}
	e.nvrtc, e.from = c.Version, c.File
	e.p, err = compile(e.dev, c, e.opt.Cache, &e.shape, e.opt.rings(), e.opt.defines...)
	return err
}

// Device is the GPU that the engine runs on.
func (e *Engine) Device() cuda.Properties { return e.dev.Properties }

// Versions are the versions of the compiler, the driver and the libraries.
func (e *Engine) Versions() map[string]string {
	d := e.dev.DriverVersion
	v := map[string]string{"nvrtc": e.nvrtc, "driver's CUDA": fmt.Sprintf("%d.%d", d/1000, d%1000/10)}
	if n := e.dev.CublasVersion(); n > 0 {
		v["cublasLt"] = fmt.Sprintf("%d.%d.%d", n/10000, n%10000/100, n%100)
	}
	return v
}

// Files are those that the libraries were loaded from, by what they are.
func (e *Engine) Files() map[string]string {
	files := e.dev.Files()
	files["nvrtc"] = e.from
	return files
}

// Params is the number of the model's parameters, those of all ranks together.
func (e *Engine) Params() int64 { return e.opt.Model.Params() }

// A Footprint is the GPU memory that an Engine holds, in bytes. After Open only the workspace of
// cuBLASLt's GEMMs changes it.
type Footprint struct {
	Params  int64 // the parameters themselves, with their scales and zero points
	Aligned int64 // gaps between tensors, and the RoPE table
	KV      int64 // the whole cache
	Tokens  int   // The cache has room for so many tokens of a sequence.
	Peak    int64 // the most that was allocated at once
}

// footprint counts the memory.
func (e *Engine) footprint() Footprint {
	_, peak := e.dev.Used()
	return Footprint{
		Params: e.w.stored, Aligned: int64(e.w.bytes()) - e.w.stored + int64(4*e.shape.headDim/2),
		KV: int64(e.b.kv), Tokens: e.b.capacity, Peak: int64(peak),
	}
}

// Close frees the GPU's memory. A second call does nothing.
func (e *Engine) Close() error {
	if e.dev == nil {
		return nil
	}
	var errs []error
	if e.s != nil {
		errs = append(errs, e.s.Sync())
	}
	for _, release := range slices.Backward(e.held) {
		errs = append(errs, release())
	}
	errs = append(errs, e.dev.Close())
	e.dev = nil
	return errors.Join(errs...)
}
