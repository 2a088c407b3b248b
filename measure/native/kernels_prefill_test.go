package native

import (
	"fmt"
	"strings"
	"testing"

	"llmprof/measure/native/cuda"
	"llmprof/measure/native/internal/emulate"
)

// hopperBench returns a bench on a Hopper GPU, or on the emulated one as if it were Hopper's.
func hopperBench(t *testing.T, s *shape) *bench {
	t.Helper()
	var more []string
	emulated := emulate.RealGPU() != nil
	if emulated {
		more = []string{"__CUDA_ARCH_FEAT_SM90_ALL=1"}
	}
	b := newBench(t, s, more...)
	if !emulated && b.dev.Major != 9 {
		t.Skipf("%s is not of Hopper's generation", b.dev.Name)
	}
	b.p.tile = tileFor(&cuda.Properties{Major: 9, SharedOptIn: 227 << 10}, s)
	var err error
	b.p.attentionPrefill, err = b.p.module.Kernel(b.p.tile.kernel)
	b.noError(err)
	return b
}

// The test runs Hopper's prefill attention at lengths around the edges of its tiles, with more
// items than there are multiprocessors, and with NaN in the caches behind the prompt's end.
func TestKernelHopperPrompts(t *testing.T) {
	type prompt struct {
		s             shape
		batch, length int
	}
	cases := []prompt{
		{shape{heads: 2, kvHeads: 1, headDim: 128}, 1, 1}, {shape{heads: 2, kvHeads: 1, headDim: 128}, 2, 77},
		{shape{heads: 2, kvHeads: 1, headDim: 128}, 2, 129}, {shape{heads: 4, kvHeads: 2, headDim: 128}, 1, 257},
		{shape{heads: 7, kvHeads: 1, headDim: 64}, 1, 127}, {shape{heads: 7, kvHeads: 1, headDim: 64}, 1, 300},
		{shape{heads: 2, kvHeads: 1, headDim: 128, fp16: true}, 2, 129},
	}
	if !slow() {
		cases = nil
		for _, length := range []int{1, 77, 127, 128, 129, 1000, 4096, 8191} {
			cases = append(cases, prompt{shape{heads: 7, kvHeads: 1, headDim: 64}, 1 + 2000/length%3, length})
			cases = append(cases, prompt{shape{heads: 8 << (2000 / length % 3), kvHeads: 2 << (2000 / length % 3), headDim: 128}, 1 + 500/length%3,
				length})
		}
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%d of %d by %dx%d on %d", c.batch, c.length, c.s.heads, c.s.headDim, c.s.kvHeads), func(t *testing.T) {
			t.Parallel()
			if c.length != 257 {
				emulate.Long(t)
			}
			b := hopperBench(t, &c.s)
			b.hopperPrompts(&c.s, c.batch, c.length)
			b.hopperPrompts(&c.s, c.batch, c.length) // an emulated GPU goes the other way
		})
	}
}

func (b *bench) hopperPrompts(s *shape, batch, length int) {
	b.t.Helper()
	d, capacity, rows := s.headDim, length+5, batch*length
	qkv, queries := b.normal(rows*s.qkvWidth(), 1)
	k, keys := b.normal(batch*s.kvHeads*capacity*d, 1)
	v, values := b.normal(len(k), 1)
	for i := range k {
		if i/d%capacity >= length {
			k[i], v[i] = 0xffff, 0xffff
		}
	}
	out := room[uint16](b, rows*s.attWidth())
	dq, dk, dv := put(b, qkv), put(b, k), put(b, v)
	b.noError(b.p.queueAttention(b.dev, b.s, s, &prompts{qkv: dq, k: dk, v: dv, out: out, count: batch, length: length, capacity: capacity}))
	got := b.toFloat(get[uint16](b, out, rows*s.attWidth()))
	for i := range got {
		if got[i] != got[i] {
			b.t.Fatalf("%d prompts of %d, %d heads of %d: value %d of row %d was not written", batch, length, s.heads, d, i%s.attWidth(),
				i/s.attWidth())
		}
	}
	for i := range rows {
		pos, seq := i%length, i/length
		edge := pos%128 < 2 || pos%128 > 125 || pos%64 < 1
		last := length-pos < 3
		if length > 130 && !last && (!edge && b.r.IntN(40) > 0 || pos > 1000 && b.r.IntN(30) > 0) {
			continue
		}
		for h := range s.heads {
			if length > 1000 && b.r.IntN(8) > 0 {
				continue
			}
			at := (seq*s.kvHeads + h/(s.heads/s.kvHeads)) * capacity * d
			want := attend(queries[i*s.qkvWidth()+h*d:][:d], keys[at:][:(pos+1)*d], values[at:][:(pos+1)*d], float64(s.scale()))
			near(b.t, fmt.Sprintf("prompt %d of %d, %d heads of %d, head %d, position %d", seq, length, s.heads, d, h, pos),
				got[i*s.attWidth()+h*d:][:d], want, 2*b.rounding()) // weights are rounded too
		}
	}
	for _, p := range []cuda.Ptr{out, dq, dk, dv} {
		b.noError(b.dev.Free(p))
	}
}

// A tensor that bulk copies cannot take is refused, and the error says which.
func TestTensorMapRefused(t *testing.T) {
	dev, err := cuda.Open(0, emulate.Device(t))
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if dev.Major < 9 && emulate.RealGPU() == nil {
		t.Skipf("%s has no tensor maps", dev.Name)
	}
	good := cuda.Tensor{At: 1 << 20, Size: [3]int{128, 5, 2}, Stride: [2]int{256, 2560}, Box: [3]int{64, 128, 1}}
	if _, err := dev.TensorMap(&good); err != nil {
		t.Fatal(err)
	}
	for says, change := range map[string]func(*cuda.Tensor){
		"at 0x100008":           func(x *cuda.Tensor) { x.At += 8 },
		"planes [250 2560] b":   func(x *cuda.Tensor) { x.Stride[0] = 250 },
		"in boxes of [64 300 1": func(x *cuda.Tensor) { x.Box[1] = 300 },
		"in boxes of [128 128":  func(x *cuda.Tensor) { x.Box[0] = 128 },
	} {
		bad := good
		change(&bad)
		if _, err := dev.TensorMap(&bad); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
