package native

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"

	"llmprof/internal/testkit"
	"llmprof/models"
	"llmprof/models/safetensors"
)

// A reference computes the model in the plainest way: in float64 on the host, one token after the
// other, with the weights that fill_random makes.
type reference struct {
	s       shape
	w       map[string][]float64
	k, v    [][][]float64 // [layer][position]
	windows []int
	lastPos int
	last    float64 // the smallest gap between an expert that the last token took and one that it did not
	before  float64 // and of all tokens before it

	rounds bool   // what the engine keeps in bf16 is rounded to it
	model  string // config.json, or the folder of a checkpoint
}

func newReference(t testing.TB, config string, seed uint64) *reference {
	t.Helper()
	return referenceOf(t, config, Options{Seed: seed})
}

// shapeOf reads a model and its shape.
func shapeOf(t testing.TB, config string) (*models.Model, shape) {
	t.Helper()
	m, err := models.Read("test", []byte(config))
	testkit.Must(t, err)
	s, err := readShape(m, []byte(config))
	testkit.Must(t, err)
	return m, s
}

// referenceOf returns a reference with weights in the options' formats, quantized as the engine
// quantizes them.
func referenceOf(t testing.TB, config string, opt Options) *reference {
	t.Helper()
	m, s := shapeOf(t, config)
	s.fp16, s.quant = opt.FP16, opt.Quantization
	r := &reference{s: s, model: config, w: map[string][]float64{}, windows: windows(m)}
	for _, ts := range layout(&s).tensors {
		v := make([]float64, ts.elements())
		gemm := tensorSeed(opt.Seed, ts.name)
		for i := range v {
			v[i] = float64(s.normStart())
			if !ts.norm {
				v[i] = randomWeight(s.float(), gemm, uint64(i), scaleOf(ts.name, opt.Spread))
			}
		}
		r.w[ts.name] = quantized(ts.quant, s.float(), v, ts.cols.N)
	}
	r.reset()
	return r
}

func (r *reference) reset() {
	r.k, r.v, r.lastPos = make([][][]float64, r.s.layers), make([][][]float64, r.s.layers), 0
	r.last, r.before = 1, 1
}

// randomWeight returns element i of random.cu's fill_random.
func randomWeight(f safetensors.Format, seed, i uint64, scale float32) float64 {
	z := seed + (i+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	u := float32(float32(float32(z>>40)+0.5)*float32(1.0/8388608)) - 1
	return float64(f.Value(f.Round(scale * u)))
}

func bf16(v uint16) float64 { return float64(math.Float32frombits(uint32(v) << 16)) }

func (r *reference) linear(x []float64, name string) []float64 {
	w := r.w[name+".weight"]
	y := make([]float64, len(w)/len(x))
	for i := range y {
		y[i] = floats.Dot(w[i*len(x):(i+1)*len(x)], x)
	}
	for i, b := range r.w[name+".bias"] {
		y[i] += b
	}
	return y
}

func (r *reference) norm(x []float64, name string) []float64 {
	ss := 0.0
	for _, v := range x {
		ss += v * v
	}
	scale := 1 / math.Sqrt(ss/float64(len(x))+float64(r.s.eps))
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = v * scale * (r.w[name+".weight"][i] + 1 - float64(r.s.normStart()))
	}
	return y
}

// branch returns what a block adds to the stream.
func (r *reference) branch(y []float64, norm string) []float64 {
	if !r.s.outputNorm {
		return y
	}
	return r.norm(y, norm)
}

func soften(v, limit float64) float64 {
	if limit == 0 {
		return v
	}
	return limit * math.Tanh(v/limit)
}

// head returns one head of a projection, after norm and RoPE.
func (r *reference) head(x []float64, h, layer, pos int, norm string) []float64 {
	d := r.s.headDim
	freq := r.s.rope.frequencies(d)
	if r.s.localRope.Theta != 0 && r.windows[layer] > 0 {
		freq = r.s.localRope.frequencies(d)
	}
	v := append([]float64(nil), x[h*d:(h+1)*d]...)
	if r.s.qkNorm {
		v = r.norm(v, norm)
	}
	out := make([]float64, d)
	for i := range d / 2 {
		sin, cos := math.Sincos(float64(pos) * float64(freq[i]))
		out[i] = v[i]*cos - v[i+d/2]*sin
		out[i+d/2] = v[i+d/2]*cos + v[i]*sin
	}
	return out
}

// next runs one token and returns the scores.
func (r *reference) next(token int) []float64 { return r.scores(r.advance(token)) }

// after runs several tokens and returns the scores of the last.
func (r *reference) after(tokens []int) []float64 {
	var x []float64
	for _, token := range tokens {
		x = r.advance(token)
	}
	return r.scores(x)
}

// advance runs one token and returns its stream.
func (r *reference) advance(token int) []float64 {
	s, pos := &r.s, r.lastPos
	r.lastPos++
	r.last, r.before = 1, min(r.last, r.before)
	x := append([]float64(nil), r.w["model.embed_tokens.weight"][token*s.hidden:(token+1)*s.hidden]...)
	if s.embedScale {
		for i := range x {
			x[i] *= float64(s.embedFactor())
		}
	}
	for l := range s.layers {
		p := "model.layers." + string(rune('0'+l)) + "."
		att := r.quant(r.attend(r.quant(r.norm(x, p+"input_layernorm")), l, pos, p+"self_attn."))
		for i, v := range r.branch(r.linear(att, p+"self_attn.o_proj"), p+"post_attention_layernorm") {
			x[i] += v
		}
		before := "post_attention_layernorm"
		if s.outputNorm {
			before = "pre_feedforward_layernorm"
		}
		h := r.quant(r.norm(x, p+before))
		if s.experts > 0 {
			for i, v := range r.moe(h, p) {
				x[i] += v
			}
			continue
		}
		g, u := r.quant(r.linear(h, p+"mlp.gate_proj")), r.quant(r.linear(h, p+"mlp.up_proj"))
		for i := range g {
			act := silu(g[i])
			if s.gelu {
				act = g[i] / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(g[i]+0.044715*g[i]*g[i]*g[i])))
			}
			g[i] = act * u[i]
		}
		for i, v := range r.branch(r.linear(r.quant(g), p+"mlp.down_proj"), p+"post_feedforward_layernorm") {
			x[i] += v
		}
	}
	return x
}

// scores are those of every token of the vocabulary.
func (r *reference) scores(x []float64) []float64 {
	s, head := &r.s, "lm_head"
	if s.tied {
		head = "model.embed_tokens"
	}
	scores := r.linear(r.quant(r.norm(x, "model.norm")), head)
	for i := range scores {
		scores[i] = soften(scores[i], s.logitSoftcap)
	}
	return scores
}

func (r *reference) attend(h []float64, l, pos int, p string) []float64 {
	s := &r.s
	q, k, v := r.quant(r.linear(h, p+"q_proj")), r.quant(r.linear(h, p+"k_proj")), r.quant(r.linear(h, p+"v_proj"))
	keys := make([]float64, 0, len(k))
	for i := range s.kvHeads {
		keys = append(keys, r.head(k, i, l, pos, p+"k_norm")...)
	}
	r.k[l], r.v[l] = append(r.k[l], r.quant(keys)), append(r.v[l], v)
	out := make([]float64, len(q))
	d, group := s.headDim, s.heads/s.kvHeads
	for i := range s.heads {
		qh, at := r.quant(r.head(q, i, l, pos, p+"q_norm")), i/group*d
		scores := make([]float64, pos+1)
		peak := math.Inf(-1)
		for j := range scores {
			scores[j] = soften(floats.Dot(qh, r.k[l][j][at:at+d])*float64(s.scale()), s.attSoftcap)
			if w := r.windows[l]; w > 0 && pos-j >= w {
				scores[j] = math.Inf(-1)
			}
			peak = max(peak, scores[j])
		}
		sum := 0.0
		for j := range scores {
			scores[j] = math.Exp(scores[j] - peak)
			sum += scores[j]
		}
		r.quant(scores)
		for j := range scores {
			weight, values := scores[j]/sum, r.v[l][j][at:at+d]
			for c := range values {
				out[i*d+c] += weight * values[c]
			}
		}
	}
	return out
}

// relativeError is the distance of a from b, relative to b, and infinite for NaN.
func relativeError[T float32 | float64](a []T, b []float64) float64 {
	var d, n float64
	for i := range b {
		d += (float64(a[i]) - b[i]) * (float64(a[i]) - b[i])
		n += b[i] * b[i]
	}
	e := math.Sqrt(d / n)
	if math.IsNaN(e) || len(a) != len(b) {
		return math.Inf(1)
	}
	return e
}

// sameChoice reports whether token has the best score, or one that differs from it by no more than
// the error of the scores.
func sameChoice(scores []float64, token int32, limit float64) bool {
	best, spread := math.Inf(-1), 0.0
	for _, v := range scores {
		best = max(best, v)
		spread += v * v
	}
	return best-scores[token] <= 2*max(limit, 1e-2)*math.Sqrt(spread/float64(len(scores)))
}

func randomPrompts(seed uint64, batch, length, vocab int) [][]int {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([][]int, batch)
	for i := range out {
		for range length {
			out[i] = append(out[i], r.IntN(vocab))
		}
	}
	return out
}
