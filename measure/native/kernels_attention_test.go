package native

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"llmprof/measure/native/cuda"
	"llmprof/measure/native/internal/emulate"
)

// heads has shapes of attention that cover every switch of the kernels: head size, group size,
// norms and biases. There are fewer under a tool.
func heads() []shape {
	all := []shape{
		{heads: 8, kvHeads: 2, headDim: 64}, {heads: 2, kvHeads: 2, headDim: 128, qkNorm: true}, {heads: 7, kvHeads: 1, headDim: 64, bias: true},
		{heads: 8, kvHeads: 1, headDim: 256}, {heads: 16, kvHeads: 2, headDim: 128, qkNorm: true, bias: true},
		{heads: 3, kvHeads: 1, headDim: 256, bias: true},
		{heads: 4, kvHeads: 1, headDim: 128, qkNorm: true, fp16: true}, {heads: 2, kvHeads: 1, headDim: 256, fp16: true},
	}
	if underTool() {
		return all[:4]
	}
	return all
}

// projections has queries, keys and values of some tokens, with norms, biases and angles, on the
// device and on the host.
type projections struct {
	s                           *shape
	bias, qNorm, kNorm          []float64
	frequencies                 []float32
	dBias, dQNorm, dKNorm, dTab cuda.Ptr
}

const headEps = 1e-6

func (b *bench) projections(s *shape) *projections {
	p := &projections{s: s}
	raw, v := b.normal(s.qkvWidth(), 0.3)
	if s.bias {
		p.bias, p.dBias = v, put(b, raw)
	}
	if s.qkNorm {
		raw, p.qNorm = b.normal(s.headDim, 1)
		p.dQNorm = put(b, raw)
		raw, p.kNorm = b.normal(s.headDim, 1)
		p.dKNorm = put(b, raw)
	}
	r := rope{Theta: 10000, Type: "default"}
	p.frequencies = r.frequencies(s.headDim)
	p.dTab = put(b, p.frequencies)
	return p
}

// head returns head h of a row of the projections, in the order queries, keys, values, as attention
// uses it at a position.
func (p *projections) head(row []float64, h, pos int) []float64 {
	d := p.s.headDim
	v := append([]float64(nil), row[h*d:(h+1)*d]...)
	for i := range p.bias[min(h*d, len(p.bias)):min((h+1)*d, len(p.bias))] {
		v[i] += p.bias[h*d+i]
	}
	if h >= p.s.heads+p.s.kvHeads {
		return v
	}
	norm := p.qNorm
	if h >= p.s.heads {
		norm = p.kNorm
	}
	if norm != nil {
		ss := 0.0
		for _, x := range v {
			ss += x * x
		}
		scale := 1 / math.Sqrt(ss/float64(d)+headEps)
		for i := range v {
			v[i] *= scale * norm[i]
		}
	}
	out := make([]float64, d)
	for i := range d / 2 {
		sin, cos := math.Sincos(float64(pos) * float64(p.frequencies[i]))
		out[i], out[i+d/2] = v[i]*cos-v[i+d/2]*sin, v[i+d/2]*cos+v[i]*sin
	}
	return out
}

// attend is softmax attention of one query over keys [n][d] and values.
func attend(q, keys, values []float64, scale float64) []float64 {
	d := len(q)
	n := len(keys) / d
	scores, peak, sum := make([]float64, n), math.Inf(-1), 0.0
	for j := range scores {
		scores[j] = dot(keys, q, j, 0, d) * scale
		peak = max(peak, scores[j])
	}
	out := make([]float64, d)
	for j := range scores {
		w := math.Exp(scores[j] - peak)
		sum += w
		for c := range d {
			out[c] += w * values[j*d+c]
		}
	}
	for c := range out {
		out[c] /= sum
	}
	return out
}

// The test runs decode attention at contexts around every edge of the kernel: none, one, a round of
// keys, and the parts of the split.
func TestKernelAttentionDecode(t *testing.T) {
	for i, s := range heads() {
		t.Run(fmt.Sprintf("%dx%d on %d in %d", s.heads, s.headDim, s.kvHeads, s.float()), func(t *testing.T) {
			t.Parallel()
			if i > 0 {
				emulate.Long(t)
			}
			b := newBench(t, &s)
			p := b.projections(&s)
			for _, c := range []struct {
				splits int
				past   []int
			}{{1, []int{0, 1, 128}}, {3, []int{2, 15, 16, 17, 47}}, {2, []int{31, 63, 300}}, {16, []int{0, 1023}}, {8, []int{77, 2048}},
				{32, []int{0, 511, 512}}, {10, []int{4096}}} {
				if !underTool() || slices.Max(c.past) < 1024 {
					b.attentionDecode(p, c.splits, c.past)
				}
			}
		})
	}
}

func (b *bench) attentionDecode(p *projections, splits int, past []int) {
	b.t.Helper()
	s, d, batch, capacity := p.s, p.s.headDim, len(past), 0
	for _, n := range past {
		capacity = max(capacity, n+1)
	}
	rows, row := b.floats(batch*s.qkvWidth(), 1)
	k, _ := b.normal(batch*s.kvHeads*capacity*d, 1)
	v, _ := b.normal(len(k), 1)
	positions := make([]int32, batch)
	for i, n := range past {
		positions[i] = int32(n)
		for h := range s.kvHeads { // what is not yet written is not a number
			for at := ((i*s.kvHeads+h)*capacity + n) * d; at < ((i*s.kvHeads+h)+1)*capacity*d; at++ {
				k[at], v[at] = 0xffff, 0xffff
			}
		}
	}
	dk, dv, arrived, out := put(b, k), put(b, v), put(b, make([]uint32, batch*s.kvHeads)), room[uint16](b, batch*s.attWidth())
	b.run(b.p.attentionDecode, b.p.decode.launch(splits, s.kvHeads, batch),
		put(b, rows), p.dBias, p.dQNorm, p.dKNorm, p.dTab, dk, dv, put(b, positions), room[float32](b, batch*splits*s.heads*d),
		room[float32](b, batch*splits*s.heads*2), arrived, out, int32(capacity), float32(headEps), s.scale())
	gotK, gotV, got := get[uint16](b, dk, len(k)), get[uint16](b, dv, len(v)), b.toFloat(get[uint16](b, out, batch*s.attWidth()))
	for i, n := range past {
		line := row[i*s.qkvWidth():][:s.qkvWidth()]
		for h := range s.kvHeads {
			at := ((i*s.kvHeads + h) * capacity) * d
			key, value := p.head(line, s.heads+h, n), p.head(line, s.heads+s.kvHeads+h, n)
			what := fmt.Sprintf("%d parts, context %d, key head %d", splits, n, h)
			near(b.t, what+": the new key", b.toFloat(gotK[at+n*d:][:d]), key, b.rounding())
			near(b.t, what+": the new value", b.toFloat(gotV[at+n*d:][:d]), value, b.rounding())
			keys, values := b.toFloat(gotK[at:][:(n+1)*d]), b.toFloat(gotV[at:][:(n+1)*d])
			for g := range s.heads / s.kvHeads {
				q := h*(s.heads/s.kvHeads) + g
				want := attend(p.head(line, q, n), keys, values, float64(s.scale()))
				near(b.t, fmt.Sprintf("%s, query %d", what, g), got[i*s.attWidth()+q*d:][:d], want, 2*b.rounding()) // weights are rounded too
			}
			for j := range n * d {
				if gotK[at+j] != k[at+j] || gotV[at+j] != v[at+j] {
					b.t.Fatalf("%s: the cache changed at %d", what, j)
				}
			}
		}
	}
	for i, c := range get[uint32](b, arrived, batch*s.kvHeads) {
		if c != 0 {
			b.t.Fatalf("counter %d is %d after %d parts", i, c, splits)
		}
	}
}

// The test runs the preparation of a prompt's heads and the attention of whole prompts, at lengths
// around the tile's.
func TestKernelPrompts(t *testing.T) {
	for i, s := range heads() {
		t.Run(fmt.Sprintf("%dx%d on %d in %d", s.heads, s.headDim, s.kvHeads, s.float()), func(t *testing.T) {
			t.Parallel()
			if i > 1 {
				emulate.Long(t)
			}
			b := newBench(t, &s)
			p := b.projections(&s)
			for _, c := range []struct{ batch, length int }{{1, 1}, {3, 2}, {1, 63}, {2, 64}, {1, 65}, {1, 129}} {
				b.prompts(p, c.batch, c.length)
			}
		})
	}
}

// GPUs whose blocks have less shared memory take shorter tiles of keys.
func TestKernelPromptsInLess(t *testing.T) {
	cases := []struct{ headDim, kib, keys int }{{256, 163, 64}, {256, 99, 32}, {256, 64, 16}, {128, 99, 64}, {128, 64, 32}}
	if underTool() {
		cases = cases[1:2]
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%d in %d KiB", c.headDim, c.kib), func(t *testing.T) {
			t.Parallel()
			emulate.Long(t)
			s := shape{heads: 2, kvHeads: 1, headDim: c.headDim}
			less := cuda.Properties{Major: 8, SharedOptIn: c.kib << 10}
			if tile := tileFor(&less, &s); tile.keys != c.keys || tile.shared > less.SharedOptIn {
				t.Fatalf("tiles of %d keys in %d bytes, want %d", tile.keys, tile.shared, c.keys)
			}
			b := newBench(t, &s, definesFor(&less, &s)...)
			b.p.tile = tileFor(&less, &s)
			var err error
			b.p.attentionPrefill, err = b.p.module.Kernel(b.p.tile.kernel)
			b.noError(err)
			p := b.projections(&s)
			for _, c := range []struct{ batch, length int }{{1, 1}, {3, 2}, {1, 15}, {2, 17}, {1, 33}, {2, 64}, {1, 65}, {1, 161}} {
				b.prompts(p, c.batch, c.length)
			}
		})
	}
}

func (b *bench) prompts(p *projections, batch, length int) {
	b.t.Helper()
	s, d, capacity, rows := p.s, p.s.headDim, length+3, batch*length
	raw, row := b.normal(rows*s.qkvWidth(), 1)
	qkv, k, v, out := put(b, raw), room[uint16](b, batch*s.kvHeads*capacity*d), room[uint16](b, batch*s.kvHeads*capacity*d),
		room[uint16](b, rows*s.attWidth())
	// Biases are in already.
	p = &projections{s: s, qNorm: p.qNorm, kNorm: p.kNorm, frequencies: p.frequencies, dQNorm: p.dQNorm, dKNorm: p.dKNorm, dTab: p.dTab}
	b.run(b.p.rotary, cuda.Launch{Grid: cuda.Dim{X: rows}, Block: cuda.Dim{X: 256}}, qkv, p.dQNorm, p.dKNorm, p.dTab, k, v,
		int32(s.kvHeads), int32(length), int32(capacity), float32(headEps))
	b.noError(b.p.queueAttention(b.dev, b.s, s, &prompts{qkv: qkv, k: k, v: v, out: out, count: batch, length: length, capacity: capacity}))
	queries, keys, values := b.toFloat(get[uint16](b, qkv, len(raw))), b.toFloat(get[uint16](b, k, batch*s.kvHeads*capacity*d)),
		b.toFloat(get[uint16](b, v, batch*s.kvHeads*capacity*d))
	got := b.toFloat(get[uint16](b, out, rows*s.attWidth()))
	group := s.heads / s.kvHeads
	for i := range rows {
		pos, seq := i%length, i/length
		line := row[i*s.qkvWidth():][:s.qkvWidth()]
		what := fmt.Sprintf("prompt %d of %d, position %d", seq, length, pos)
		for h := range s.kvHeads {
			at := (seq*s.kvHeads + h) * capacity * d
			near(b.t, what+": key", keys[at+pos*d:][:d], p.head(line, s.heads+h, pos), b.rounding())
			near(b.t, what+": value", values[at+pos*d:][:d], p.head(line, s.heads+s.kvHeads+h, pos), b.rounding())
		}
		for h := range s.heads {
			q := queries[i*s.qkvWidth()+h*d:][:d]
			near(b.t, what+": query", q, p.head(line, h, pos), b.rounding())
			at := (seq*s.kvHeads + h/group) * capacity * d
			want := attend(q, keys[at:][:(pos+1)*d], values[at:][:(pos+1)*d], float64(s.scale()))
			near(b.t, what+": attention", got[i*s.attWidth()+h*d:][:d], want, 2*b.rounding()) // weights are rounded too
		}
	}
}
