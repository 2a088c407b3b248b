package native

import (
	"fmt"
	"hash/fnv"

	"llmprof/measure/native/cuda"
	"llmprof/models/safetensors"
)

// A tensor is a tensor of the checkpoint, with the part that the engine has of it and its place. A
// vector is rows of one column.
type tensor struct {
	name       string
	shape      []int // shape of the whole tensor
	rows, cols safetensors.Span
	offset     int // in bytes
	norm       bool

	quant      Quantization
	scaled         // If the tensor is quantized, these are offsets in bytes, for all rows that lie together.
	row, among int // first row among the rows that lie together, and how many those are
}

func (t *tensor) elements() int { return t.rows.N * t.cols.N }

// width is the columns of the whole tensor.
func (t *tensor) width() int {
	if len(t.shape) == 1 {
		return 1
	}
	return t.shape[1]
}

// rowsOf is a tensor of which each rank has n rows; width is 0 for a vector.
func (s *shape) rowsOf(name string, n, width int) tensor {
	t := tensor{name: name, shape: []int{n * s.ranks}, rows: safetensors.Span{Begin: s.rank * n, N: n}, cols: safetensors.Span{N: 1}}
	if width > 0 {
		t.shape, t.cols.N = append(t.shape, width), width
	}
	return t
}

// keysOf is a tensor of which each rank has n rows; ranks that share key heads have the same rows.
func (s *shape) keysOf(name string, n, width int) tensor {
	groups := *s
	groups.rank, groups.ranks = s.rank/s.keyCopies, s.ranks/s.keyCopies
	return groups.rowsOf(name, n, width)
}

// columnsOf is a tensor of which each rank has n columns.
func (s *shape) columnsOf(name string, rows, n int) tensor {
	return tensor{name: name, shape: []int{rows, n * s.ranks}, rows: safetensors.Span{N: rows},
		cols: safetensors.Span{Begin: s.rank * n, N: n}}
}

func (s *shape) vocabularyOf(name string) tensor {
	return tensor{
		name: name, shape: []int{s.vocab, s.hidden},
		rows: safetensors.Span{Begin: s.firstToken, N: s.tokens}, cols: safetensors.Span{N: s.hidden},
	}
}

func wholeMatrix(name string, rows, columns int) tensor {
	return tensor{name: name, shape: []int{rows, columns}, rows: safetensors.Span{N: rows}, cols: safetensors.Span{N: columns}}
}

// wholeNorm is a norm, which every rank has.
func wholeNorm(name string, n int) tensor {
	return tensor{name: name, shape: []int{n}, rows: safetensors.Span{N: n}, cols: safetensors.Span{N: 1}}
}

// layerWeights are the addresses of one layer's tensors. q, k and v lie one behind the other, and so
// do gate and up. Sizes are those of the engine's part.
type layerWeights struct {
	attNorm cuda.Ptr // [hidden]
	qkv     cuda.Ptr // [(heads+2·kvHeads)·headDim][hidden]
	bias    cuda.Ptr // [(heads+2·kvHeads)·headDim], 0 for none
	qNorm   cuda.Ptr // [headDim], 0 for none
	kNorm   cuda.Ptr // [headDim], 0 for none
	o       cuda.Ptr // [hidden][heads·headDim]
	mlpNorm cuda.Ptr // [hidden]
	attPost cuda.Ptr // [hidden], the norm of attention's output, 0 for none
	mlpPost cuda.Ptr // [hidden], the norm of the feed-forward's output, 0 for none
	router  cuda.Ptr // [experts][hidden], 0 for none
	gateUp  cuda.Ptr // [2·inner][hidden], for each expert of a MoE layer
	down    cuda.Ptr // [hidden][inner], for each expert of a MoE layer
}

// weights are a model's parameters on the GPU, in one allocation.
type weights struct {
	tensors   []tensor
	size      int                 // bytes of all tensors with the gaps between them
	stored    int64               // bytes without the gaps
	quantized map[cuda.Ptr]scaled // The key is the address of the first of the matrices that lie together.
	base      cuda.Ptr
	embedding cuda.Ptr // [tokens][hidden]
	layers    []layerWeights
	norm      cuda.Ptr // [hidden]
	head      cuda.Ptr // [tokens][hidden], the embedding if tied
}

// alignment is the alignment of the tensors that a GEMM reads, in bytes.
const alignment = 256

func (w *weights) align() { w.size = (w.size + alignment - 1) / alignment * alignment }

// place appends tensors that lie without gaps and returns where they begin.
func (w *weights) place(norm bool, ts ...tensor) cuda.Ptr {
	w.align()
	begin := w.size
	for _, t := range ts {
		t.offset, t.norm = w.size, norm
		bytes, _, _ := t.quant.bytes(t.rows.N, t.cols.N)
		w.size += bytes
		w.stored += int64(bytes)
		w.tensors = append(w.tensors, t)
	}
	return cuda.Ptr(begin)
}

// layout lists the tensors by their names in checkpoints of these families.
func layout(s *shape) *weights {
	w := &weights{quantized: map[cuda.Ptr]scaled{}}
	norm := func(name string, n int) cuda.Ptr { return w.place(true, wholeNorm(name+".weight", n)) }
	w.embedding = w.place(false, s.vocabularyOf(embeddingName))
	for i := range s.layers {
		p := fmt.Sprintf("model.layers.%d.", i)
		a := p + "self_attn."
		var l layerWeights
		l.attNorm = norm(p+"input_layernorm", s.hidden)
		q, kv := s.attWidth(), s.kvHeads*s.headDim
		l.qkv = w.placeLinear(s.quant, s.rowsOf(a+"q_proj.weight", q, s.hidden), s.keysOf(a+"k_proj.weight", kv, s.hidden),
			s.keysOf(a+"v_proj.weight", kv, s.hidden))
		if s.bias {
			l.bias = w.place(false, s.rowsOf(a+"q_proj.bias", q, 0), s.keysOf(a+"k_proj.bias", kv, 0), s.keysOf(a+"v_proj.bias", kv, 0))
		}
		if s.qkNorm {
			l.qNorm, l.kNorm = norm(a+"q_norm", s.headDim), norm(a+"k_norm", s.headDim)
		}
		l.o = w.placeLinear(s.quant, s.columnsOf(a+"o_proj.weight", s.hidden, q))
		if s.outputNorm {
			l.attPost = norm(p+"post_attention_layernorm", s.hidden)
			l.mlpNorm = norm(p+"pre_feedforward_layernorm", s.hidden)
			l.mlpPost = norm(p+"post_feedforward_layernorm", s.hidden)
		} else {
			l.mlpNorm = norm(p+"post_attention_layernorm", s.hidden)
		}
		if s.experts > 0 {
			w.placeExperts(s, &l, p)
		} else {
			l.gateUp = w.placeLinear(s.quant, s.rowsOf(p+"mlp.gate_proj.weight", s.inner, s.hidden),
				s.rowsOf(p+"mlp.up_proj.weight", s.inner, s.hidden))
			l.down = w.placeLinear(s.quant, s.columnsOf(p+"mlp.down_proj.weight", s.hidden, s.inner))
		}
		w.layers = append(w.layers, l)
	}
	w.norm = norm("model.norm", s.hidden)
	w.head = w.embedding
	if !s.tied {
		w.head = w.place(false, s.vocabularyOf("lm_head.weight"))
	}
	return w
}

func (w *weights) bytes() int { return w.size }

// allocate allocates the memory and turns offsets into addresses.
func (w *weights) allocate(dev *cuda.Device) error {
	base, err := dev.Alloc("the model's weights", w.bytes())
	if err != nil {
		return err
	}
	w.base = base
	w.embedding += base
	w.norm += base
	w.head += base
	quantized := map[cuda.Ptr]scaled{}
	for at, q := range w.quantized {
		q.scales += base
		if q.zeros != 0 {
			q.zeros += base
		}
		quantized[at+base] = q
	}
	w.quantized = quantized
	for i := range w.layers {
		l := &w.layers[i]
		for _, p := range []*cuda.Ptr{&l.attNorm, &l.qkv, &l.o, &l.mlpNorm, &l.gateUp, &l.down} {
			*p += base
		}
		for _, p := range []*cuda.Ptr{&l.bias, &l.qNorm, &l.kNorm, &l.attPost, &l.mlpPost, &l.router} {
			if *p != 0 { // Offset 0 is the embedding's.
				*p += base
			}
		}
	}
	return nil
}

// randomScale is the half-width of the uniform distribution of random weights. Its deviation is 0.02,
// transformers' initializer_range.
const randomScale = float32(0.02 * 1.7320508075688772) // times √3

// spreadScale is the half-width of the random embedding with Options.Spread. With a deviation of 0.02
// the output of attention, which is nearly the same for neighbouring tokens, outweighs a token's own
// vector from the first layer on. Then the streams of all tokens turn in one direction, and their
// routers choose the same few experts (docs/log/native-measurements.md). With 20 every token keeps its
// own direction through 48 layers.
const spreadScale = 1000 * randomScale

const embeddingName = "model.embed_tokens.weight"

// scaleOf is the half-width of the distribution of a tensor's random values.
func scaleOf(name string, spread bool) float32 {
	if spread && name == embeddingName {
		return spreadScale
	}
	return randomScale
}

func tensorSeed(seed uint64, name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return seed ^ h.Sum64()
}

// random fills the weights: norms with one value, all others with fill_random. Quantized weights are
// filled with 16-bit values first.
func (l *loader) random(seed uint64, norm float32) error {
	for i := range l.w.tensors {
		t := &l.w.tensors[i]
		if t.norm {
			n := uint64(t.elements())
			if err := l.k.fillConstant.Queue(l.s, filling(n), l.w.base.Add(t.offset), n, norm); err != nil {
				return err
			}
			continue
		}
		for _, p := range l.pieces(t) {
			if err := l.randomPiece(t, p, tensorSeed(seed, t.name)); err != nil {
				return err
			}
		}
	}
	return l.s.Sync()
}

// randomPiece fills some rows and columns of a tensor.
func (l *loader) randomPiece(t *tensor, p piece, seed uint64) error {
	at, n := l.w.base.Add(t.offset), uint64(p.rows.N*p.cols.N)
	if t.quant != Unquantized {
		at = l.scratch
	}
	launch, scale := filling(n), scaleOf(t.name, l.spread)
	var err error
	if p.whole(t) {
		err = l.k.fillRandom.Queue(l.s, launch, at, n, seed, scale)
	} else {
		launch.Grid.X = min(p.rows.N, 4096)
		err = l.k.fillRandomPart.Queue(l.s, launch, at, uint64(p.rows.N), uint64(p.cols.N), uint64(p.rows.Begin), uint64(p.cols.Begin),
			uint64(t.width()), seed, scale)
	}
	if err == nil && t.quant != Unquantized {
		err = l.quantize(t, p)
	}
	return err
}

// filling is the grid of a kernel that fills n values.
func filling(n uint64) cuda.Launch {
	return cuda.Launch{Grid: cuda.Dim{X: int(min((n+1023)/1024, 4096))}, Block: cuda.Dim{X: 256}}
}

// check returns what a checkpoint lacks, or has in another form, before anything but scales is read.
func (w *weights) check(c *safetensors.Checkpoint) error {
	for i := range w.tensors {
		t := &w.tensors[i]
		err := checkQuantized(c, t)
		if err == nil && (t.quant != FP8 || c.DType(t.name) != safetensors.E4M3) {
			err = c.Check(t.name, t.shape)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
