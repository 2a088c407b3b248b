package native

import (
	"fmt"
	"hash/fnv"

	"llmprof/measure/engine/native/cuda"
	"llmprof/measure/engine/native/safetensors"
)

// A tensor is one of the checkpoint's, with its place in the engine's memory.
type tensor struct {
	name   string
	shape  []int
	offset int // in elements
	norm   bool
}

func (t *tensor) elements() int {
	n := 1
	for _, d := range t.shape {
		n *= d
	}
	return n
}

// layerWeights are the addresses of one layer's tensors; q, k and v lie one
// behind the other, as do gate and up.
type layerWeights struct {
	attNorm cuda.Ptr // [hidden]
	qkv     cuda.Ptr // [(heads+2·kvHeads)·headDim][hidden]
	bias    cuda.Ptr // [(heads+2·kvHeads)·headDim], 0 for none
	qNorm   cuda.Ptr // [headDim], 0 for none
	kNorm   cuda.Ptr // [headDim], 0 for none
	o       cuda.Ptr // [hidden][heads·headDim]
	mlpNorm cuda.Ptr // [hidden]
	attPost cuda.Ptr // [hidden], of what attention adds, 0 for none
	mlpPost cuda.Ptr // [hidden], of what the feed-forward adds, 0 for none
	router  cuda.Ptr // [experts][hidden], 0 for none
	gateUp  cuda.Ptr // [2·inner][hidden], of each expert
	down    cuda.Ptr // [hidden][inner], of each expert
}

// weights are a model's parameters on the GPU, in one piece.
type weights struct {
	tensors   []tensor
	elements  int // all of them, the gaps between too
	params    int64
	base      cuda.Ptr
	embedding cuda.Ptr // [vocab][hidden]
	layers    []layerWeights
	norm      cuda.Ptr // [hidden]
	head      cuda.Ptr // [vocab][hidden], the embedding if tied
}

// alignment of the tensors that a product reads, in elements: 256 bytes.
const alignment = 128

// place appends tensors that lie without gaps and returns where they begin.
func (w *weights) place(norm bool, ts ...tensor) int {
	w.elements = (w.elements + alignment - 1) / alignment * alignment
	begin := w.elements
	for _, t := range ts {
		t.offset, t.norm = w.elements, norm
		w.elements += t.elements()
		w.params += int64(t.elements())
		w.tensors = append(w.tensors, t)
	}
	return begin
}

// layout lists the tensors by the names that checkpoints of these families have.
func layout(s *shape) *weights {
	w := &weights{}
	one := func(norm bool, name string, dims ...int) cuda.Ptr {
		return cuda.Ptr(2 * w.place(norm, tensor{name: name + ".weight", shape: dims}))
	}
	w.embedding = one(false, "model.embed_tokens", s.vocab, s.hidden)
	for i := range s.layers {
		p := fmt.Sprintf("model.layers.%d.", i)
		a := p + "self_attn."
		var l layerWeights
		l.attNorm = one(true, p+"input_layernorm", s.hidden)
		q, kv := s.attWidth(), s.kvHeads*s.headDim
		l.qkv = cuda.Ptr(2 * w.place(false,
			tensor{name: a + "q_proj.weight", shape: []int{q, s.hidden}},
			tensor{name: a + "k_proj.weight", shape: []int{kv, s.hidden}},
			tensor{name: a + "v_proj.weight", shape: []int{kv, s.hidden}}))
		if s.bias {
			l.bias = cuda.Ptr(2 * w.place(false,
				tensor{name: a + "q_proj.bias", shape: []int{q}},
				tensor{name: a + "k_proj.bias", shape: []int{kv}},
				tensor{name: a + "v_proj.bias", shape: []int{kv}}))
		}
		if s.qkNorm {
			l.qNorm = one(true, a+"q_norm", s.headDim)
			l.kNorm = one(true, a+"k_norm", s.headDim)
		}
		l.o = one(false, a+"o_proj", s.hidden, q)
		if s.sandwich {
			l.attPost = one(true, p+"post_attention_layernorm", s.hidden)
			l.mlpNorm = one(true, p+"pre_feedforward_layernorm", s.hidden)
			l.mlpPost = one(true, p+"post_feedforward_layernorm", s.hidden)
		} else {
			l.mlpNorm = one(true, p+"post_attention_layernorm", s.hidden)
		}
		if s.experts > 0 {
			w.placeExperts(s, &l, p)
		} else {
			l.gateUp = cuda.Ptr(2 * w.place(false,
				tensor{name: p + "mlp.gate_proj.weight", shape: []int{s.inner, s.hidden}},
				tensor{name: p + "mlp.up_proj.weight", shape: []int{s.inner, s.hidden}}))
			l.down = one(false, p+"mlp.down_proj", s.hidden, s.inner)
		}
		w.layers = append(w.layers, l)
	}
	w.norm = one(true, "model.norm", s.hidden)
	w.head = w.embedding
	if !s.tied {
		w.head = one(false, "lm_head", s.vocab, s.hidden)
	}
	return w
}

// bytes is the memory that the weights take.
func (w *weights) bytes() int { return 2 * w.elements }

// allocate takes the memory and turns offsets into addresses.
func (w *weights) allocate(dev *cuda.Device) error {
	base, err := dev.Alloc("the model's weights", w.bytes())
	if err != nil {
		return err
	}
	w.base = base
	w.embedding += base
	w.norm += base
	w.head += base
	for i := range w.layers {
		l := &w.layers[i]
		for _, p := range []*cuda.Ptr{&l.attNorm, &l.qkv, &l.o, &l.mlpNorm, &l.gateUp, &l.down} {
			*p += base
		}
		for _, p := range []*cuda.Ptr{&l.bias, &l.qNorm, &l.kNorm, &l.attPost, &l.mlpPost, &l.router} {
			if *p != 0 { // offset 0 is the embedding's
				*p += base
			}
		}
	}
	return nil
}

// randomScale is the half-width of the uniform distribution of random weights:
// its deviation is 0.02, transformers' initializer_range.
const randomScale = float32(0.02 * 1.7320508075688772) // times √3

// tensorSeed tells the tensors of one model apart.
func tensorSeed(seed uint64, name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return seed ^ h.Sum64()
}

// random fills the weights: norms with one value, all others with fill_random.
func (w *weights) random(k *program, s *cuda.Stream, seed uint64, norm float32) error {
	for i := range w.tensors {
		t := &w.tensors[i]
		at, n := w.base.Add(2*t.offset), uint64(t.elements())
		l := cuda.Launch{Grid: cuda.Dim{X: int(min((n+1023)/1024, 4096))}, Block: cuda.Dim{X: 256}}
		var err error
		if t.norm {
			err = k.fillConstant.Queue(s, l, at, n, norm)
		} else {
			err = k.fillRandom.Queue(s, l, at, n, tensorSeed(seed, t.name), randomScale)
		}
		if err != nil {
			return err
		}
	}
	return s.Sync()
}

// check says what a checkpoint lacks or has otherwise, before any of it is read.
func (w *weights) check(c *safetensors.Checkpoint) error {
	for i := range w.tensors {
		if err := c.Check(w.tensors[i].name, w.tensors[i].shape); err != nil {
			return err
		}
	}
	return nil
}

// load reads the weights from a checkpoint.
func (w *weights) load(dev *cuda.Device, c *safetensors.Checkpoint) error {
	for i := range w.tensors {
		t := &w.tensors[i]
		values, err := c.BF16(t.name, t.shape)
		if err != nil {
			return &WeightsError{err}
		}
		if err := cuda.Upload(dev, w.base.Add(2*t.offset), values); err != nil {
			return err
		}
	}
	return nil
}
