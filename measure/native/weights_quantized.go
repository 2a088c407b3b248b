package native

import (
	"fmt"
	"slices"
	"strings"

	"llmprof/measure/native/cuda"
	"llmprof/models/safetensors"
)

// quantizedKernels are the kernels of quantize.cu; they are nil without quantization, and arrange is
// for fp8 only.
type quantizedKernels struct {
	quantize, arrange, dequantize *cuda.Kernel
}

// A scaled is the address of a quantized matrix's scales, and of its zero points: 0 for none.
type scaled struct{ scales, zeros cuda.Ptr }

// placeLinear appends the matrices of a linear layer without gaps. If they are quantized, their scales
// follow them, and then their zero points.
func (w *weights) placeLinear(quant Quantization, ts ...tensor) cuda.Ptr {
	if quant == Unquantized {
		return w.place(false, ts...)
	}
	n, k := 0, ts[0].cols.N
	for i := range ts {
		ts[i].quant, ts[i].row = quant, n
		n += ts[i].rows.N
	}
	for i := range ts {
		ts[i].among = n
	}
	begin := w.place(false, ts...)
	_, scales, zeros := quant.bytes(n, k)
	q := scaled{scales: w.room(scales)}
	if zeros > 0 {
		q.zeros = w.room(zeros)
	}
	w.quantized[begin] = q
	placed := w.tensors[len(w.tensors)-len(ts):]
	for i := range placed {
		placed[i].scaled = q
	}
	return begin
}

// room reserves bytes for something that is not a tensor of the model.
func (w *weights) room(bytes int) cuda.Ptr {
	w.align()
	at := w.size
	w.size += bytes
	w.stored += int64(bytes)
	return cuda.Ptr(at)
}

// A loader copies weights to the GPU; weights to be quantized go through a scratch buffer.
type loader struct {
	w       *weights
	s       *cuda.Stream
	dev     *cuda.Device
	k       *program
	scratch cuda.Ptr
	room    int // bytes of the scratch buffer (scratchOf)
	float   safetensors.Format
	spread  bool // Options.Spread
	ranks   int  // ranks that load at the same time
	staged  int  // bytes of a chunk; 0 for stagedBytes
}

// A piece is the rows and columns of a tensor that are loaded at a time.
type piece struct{ rows, cols safetensors.Span }

func (p *piece) whole(t *tensor) bool { return p.rows.N == t.shape[0] && p.cols.N == t.width() }

// pieces are the pieces of t. A row in fp8 has one scale, even if GPUs share its columns. So whole
// rows go through the scratch buffer, as many as fit.
func (l *loader) pieces(t *tensor) []piece {
	if t.quant != FP8 || t.cols.N == t.width() {
		return []piece{{t.rows, t.cols}}
	}
	cols := safetensors.Span{N: t.width()}
	most := l.room / (2 * cols.N)
	var out []piece
	for first := 0; first < t.rows.N; first += most {
		out = append(out, piece{safetensors.Span{Begin: t.rows.Begin + first, N: min(most, t.rows.N-first)}, cols})
	}
	return out
}

// quantize queues the quantization of a piece of t, whose 16-bit values are in the scratch buffer.
func (l *loader) quantize(t *tensor, p piece) error {
	data, _, _ := t.quant.bytes(t.rows.N, t.cols.N)
	to, k := l.w.base.Add(t.offset), t.cols.N
	if t.quant == FP8 {
		row := p.rows.Begin - t.rows.Begin
		return l.k.quantized.quantize.Queue(l.s, cuda.Launch{Grid: cuda.Dim{X: p.rows.N}, Block: cuda.Dim{X: 256}},
			l.scratch, to.Add(row*k), l.w.base.Add(int(t.scales)+4*(t.row+row)), int32(p.cols.N), int32(t.cols.Begin-p.cols.Begin), int32(k))
	}
	// A warp has 64·2 weights, 128 bytes of them.
	launch := cuda.Launch{Grid: cuda.Dim{X: min((data/128+7)/8, 1<<16)}, Block: cuda.Dim{X: 256}}
	return l.k.quantized.quantize.Queue(l.s, launch, l.scratch, to, l.w.base.Add(int(t.scales)), l.w.base.Add(int(t.zeros)),
		int32(t.rows.N), int32(k), int32(t.among), int32(t.row))
}

func (l *loader) chunks(all []chunk, c *safetensors.Checkpoint, t *tensor) ([]chunk, error) {
	if t.quant == FP8 && c.DType(t.name) == safetensors.E4M3 {
		return l.chunksFP8(all, c, t)
	}
	for _, p := range l.pieces(t) {
		s, err := c.Slice(l.float, t.name, t.shape, p.rows, p.cols)
		if err != nil {
			return nil, &WeightsError{err}
		}
		to, then := l.w.base.Add(t.offset), (func() error)(nil)
		if t.quant != Unquantized {
			to, then = l.scratch, func() error { return l.quantize(t, p) }
		}
		all = l.split(all, t, s, to, then)
	}
	return all, nil
}

// chunksFP8 appends the chunks of a tensor that is e4m3 in the checkpoint.
func (l *loader) chunksFP8(all []chunk, c *safetensors.Checkpoint, t *tensor) ([]chunk, error) {
	s, err := c.SliceBytes(t.name, safetensors.E4M3, t.shape, t.rows, t.cols)
	if err != nil {
		return nil, &WeightsError{err}
	}
	scales, err := rowScales(c, t)
	if err != nil {
		return nil, &WeightsError{err}
	}
	scales = scales[t.rows.Begin : t.rows.Begin+t.rows.N]
	return l.split(all, t, s, l.scratch, func() error {
		if err := cuda.Upload(l.dev, l.w.base.Add(int(t.scales)+4*t.row), scales); err != nil {
			return err
		}
		units := t.elements() / 8
		launch := cuda.Launch{Grid: cuda.Dim{X: min((units+255)/256, 1<<16)}, Block: cuda.Dim{X: 256}}
		return l.k.quantized.arrange.Queue(l.s, launch, l.scratch, l.w.base.Add(t.offset), uint64(units))
	}), nil
}

// rowScales are the scales of an fp8 tensor's rows as compressed-tensors names them
// (https://github.com/vllm-project/compressed-tensors): one for each row, or one for all.
func rowScales(c *safetensors.Checkpoint, t *tensor) ([]float32, error) {
	base := strings.TrimSuffix(t.name, ".weight")
	if name := base + ".weight_scale_inv"; c.DType(name) != "" {
		return nil, fmt.Errorf("tensor %q has scales of blocks, %q; this engine has fp8 weights with a scale a row, or one of the whole tensor",
			t.name, name)
	}
	name, rows := base+".weight_scale", t.shape[0]
	if c.DType(name) == "" {
		return nil, fmt.Errorf("tensor %q is stored as %s, and there is no %q with its scales", t.name, safetensors.E4M3, name)
	}
	for _, shape := range [][]int{{rows, 1}, {rows}, {1}, {}} {
		if !c.Shaped(name, shape) {
			continue
		}
		scales, err := c.Float32(name, shape)
		if err != nil {
			return nil, err
		}
		for i, v := range scales {
			if !(v > 0 && v < 1e30) {
				return nil, fmt.Errorf("tensor %q: scale %d is %v; want a number above 0", name, i, v)
			}
		}
		if len(scales) == 1 {
			scales = slices.Repeat(scales, rows)
		}
		return scales, nil
	}
	return nil, fmt.Errorf("tensor %q is neither a scale of each of the %d rows of %q nor one of all", name, rows, t.name)
}

// checkQuantized returns why a tensor that a checkpoint has in a quantized form cannot be read.
func checkQuantized(c *safetensors.Checkpoint, t *tensor) error {
	base := strings.TrimSuffix(t.name, ".weight")
	for _, packed := range []string{".qweight", ".weight_packed"} {
		if c.DType(base+packed) != "" {
			return unsupported("weights: %q is packed as GPTQ, AWQ or compressed-tensors do; int4 weights are made of 16-bit ones here", base+packed)
		}
	}
	if linear := strings.HasSuffix(base, "_proj") || strings.Contains(base, ".experts."); c.DType(t.name) != safetensors.E4M3 || !linear {
		return nil
	}
	if t.quant != FP8 {
		return unsupported("weights: tensor %q is stored as %s, which is read with the quantization fp8 (--quantize fp8)", t.name,
			safetensors.E4M3)
	}
	if err := c.CheckIn(t.name, t.shape, safetensors.E4M3); err != nil {
		return err
	}
	_, err := rowScales(c, t)
	return err
}
