package native

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"llmprof/analytic/operator"
	"llmprof/internal/testkit"
	"llmprof/measure/native/cuda"
)

const llama8B = `{"model_type":"llama","hidden_size":4096,"intermediate_size":14336,"num_hidden_layers":32,"num_attention_heads":32,
	"num_key_value_heads":8,"head_dim":128,"vocab_size":128256,"max_position_embeddings":131072,"hidden_act":"silu",
	"rms_norm_eps":1e-5,"rope_theta":500000.0,"tie_word_embeddings":false,"attention_bias":false,"mlp_bias":false,
	"rope_scaling":{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192}}`

// qwen30BA3B is a model that TestSpeed can measure in place of llama3.1-8b.
const qwen30BA3B = `{"model_type":"qwen3_moe","hidden_size":2048,"intermediate_size":6144,"moe_intermediate_size":768,` +
	`"num_hidden_layers":48,
	"num_attention_heads":32,"num_key_value_heads":4,"head_dim":128,"num_experts":128,"num_experts_per_tok":8,"norm_topk_prob":true,
	"decoder_sparse_step":1,"mlp_only_layers":[],"vocab_size":151936,"max_position_embeddings":40960,"hidden_act":"silu","rms_norm_eps":1e-6,
	"rope_theta":1000000.0,"tie_word_embeddings":false,"attention_bias":false}`

// A speedRow is one line of the table in docs/log/native-measurements.md.
type speedRow struct {
	What   string  `json:"what"`
	Batch  int     `json:"batch,omitempty"`
	Prompt int     `json:"prompt,omitempty"`
	Ms     float64 `json:"ms"`
	HostMs float64 `json:"host_ms,omitempty"`
	Floor  float64 `json:"floor_ms,omitempty"`
	Ratio  float64 `json:"ratio,omitempty"`
	Note   string  `json:"note,omitempty"`
}

// TestSpeed measures llama3.1-8b against what this GPU reached in the same run.
// It is no test of a time: it writes what it saw as JSON. It runs where
// LLMPROF_NATIVE_SPEED names the cases: "1x1024,8x1024@1/512/3/5,prefill:2048",
// of which the second says which ring the products use, tiles/depth/stages/deep, or
// "3/256/3_2/4_2/6" with tiles/stages of gated ones and of those that add to the stream,
// with columns of their own in "1/512/5_1/5_2/7/256"; "@%32" says into how many parts attention cuts the context. Formats come first:
// "1x1024@fp8", "8x1024@int4=2/512/4/6", "prefill:2048@fp16+fp8"; a ring is that of the
// quantized weights then. "tp2:1x1024@..." is over two GPUs, "tp4:" over
// four. "compile:1x1024@..." compiles the kernels of a case alone, and "compile2:" those of two
// GPUs, so that those of several can be compiled at the same time. LLMPROF_NATIVE_SPEED_MODEL=qwen3-30b-a3b takes that
// model, and LLMPROF_NATIVE_SPEED_LAYERS so many layers; LLMPROF_NATIVE_SPEED_PART=2 takes
// half of the heads, of the feed-forward and of the vocabulary: what two GPUs have of it then
// is what each of four has of the model. LLMPROF_NATIVE_SPEED_SPREAD=0 leaves
// its random embedding as small as its other weights, so that prompts choose few experts.
func TestSpeed(t *testing.T) {
	cases := os.Getenv("LLMPROF_NATIVE_SPEED")
	if cases == "" {
		t.Skip("LLMPROF_NATIVE_SPEED names no cases")
	}
	gpu(t)
	m := &meter{t: t, model: llama8B}
	if os.Getenv("LLMPROF_NATIVE_SPEED_MODEL") == "qwen3-30b-a3b" {
		m.model = qwen30BA3B
	}
	if part := os.Getenv("LLMPROF_NATIVE_SPEED_PART"); part != "" {
		m.model = partOf(t, m.model, number(t, part))
	}
	if layers := os.Getenv("LLMPROF_NATIVE_SPEED_LAYERS"); layers != "" {
		m.model = regexp.MustCompile(`"num_hidden_layers":\d+`).ReplaceAllString(m.model, `"num_hidden_layers":`+layers)
	}
	for c := range strings.SplitSeq(cases, ",") {
		what, size, ok := strings.Cut(c, ":")
		if !ok {
			what, size = "decode", c
		}
		switch what {
		case "compile", "compile2", "compile4":
			size, shape, _ := strings.Cut(size, "@")
			b, _, _ := strings.Cut(size, "x")
			small := strings.ReplaceAll(strings.ReplaceAll(m.model, "4096", "512"), `"num_hidden_layers":48`, `"num_hidden_layers":1`)
			if what == "compile" {
				open(t, small, m.options(1, number(t, b), 2, 2, shape))
				continue
			}
			ranks := number(t, what[len("compile"):])
			openShared(t, small, m.options(ranks, number(t, b), 2, 2, shape))
		case "decode":
			size, shape, _ := strings.Cut(size, "@")
			b, p, _ := strings.Cut(size, "x")
			m.decode(number(t, b), number(t, p), shape)
		case "tp2", "tp4":
			size, shape, _ := strings.Cut(size, "@")
			b, p, _ := strings.Cut(size, "x")
			m.ranks(number(t, what[2:]), number(t, b), number(t, p), shape)
		case "prefill":
			size, shape, _ := strings.Cut(size, "@")
			m.prefill(number(t, size), shape)
		default:
			t.Fatalf("no such case: %q", c)
		}
	}
	text, err := json.MarshalIndent(m.rows, "", " ")
	testkit.Must(t, err)
	if dir := os.Getenv("OUT"); dir != "" {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, "native-speed.json"), text, 0o644))
	}
}

// partOf returns a model whose divisible sizes are one of so many parts.
func partOf(t *testing.T, model string, parts int) string {
	divided := regexp.MustCompile(`"(num_attention_heads|num_key_value_heads|intermediate_size|moe_intermediate_size|vocab_size)":(\d+)`)
	return divided.ReplaceAllStringFunc(model, func(field string) string {
		f := divided.FindStringSubmatch(field)
		return fmt.Sprintf(`"%s":%d`, f[1], number(t, f[2])/parts)
	})
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	testkit.Must(t, err)
	return n
}

// A meter collects rows; it measures the ceilings once.
type meter struct {
	t         *testing.T
	model     string
	rows      []speedRow
	bandwidth float64 // bytes a second
	gemm      float64 // FLOPs a second
}

func (m *meter) add(r speedRow) {
	m.rows = append(m.rows, r)
	m.t.Logf("%-28s batch %2d prompt %5d: %8.4f ms (host %8.4f) floor %8.4f ratio %.3f %s", r.What, r.Batch, r.Prompt, r.Ms, r.HostMs, r.Floor,
		r.Ratio, r.Note)
}

func (m *meter) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// median returns the median of n timings of work in milliseconds, by the GPU's events.
func (m *meter) median(e *Engine, n int, work func() error) float64 {
	m.t.Helper()
	var ts []float64
	for range n {
		d, err := e.s.Time(1, work)
		m.must(err)
		ts = append(ts, float64(d)*1e3)
	}
	slices.Sort(ts)
	return ts[len(ts)/2]
}

// ceilings measures the best bandwidth and the best GEMM, on the engine's memory.
func (m *meter) ceilings(e *Engine) {
	if m.bandwidth != 0 {
		return
	}
	const size = 4 << 30
	sink, err := e.dev.Alloc("a sink", 4)
	m.must(err)
	for _, blocks := range []int{2, 4, 8, 16} {
		l := cuda.Launch{Grid: cuda.Dim{X: e.dev.SMs * blocks}, Block: cuda.Dim{X: 512}}
		ms := m.median(e, 5, func() error { return e.p.probeRead.Queue(e.s, l, e.w.base, uint64(size/16), sink) })
		m.bandwidth = max(m.bandwidth, size/ms*1e3)
		m.add(speedRow{What: "read 4 GiB", Ms: ms, Note: strconv.FormatFloat(size/ms/1e9, 'f', 3, 64) + " TB/s"})
	}
	to, err := e.dev.Alloc("a copy", size)
	m.must(err)
	ms := m.median(e, 5, func() error { return e.s.Copy(to, e.w.base, size) })
	m.bandwidth = max(m.bandwidth, 2*size/ms*1e3)
	m.add(speedRow{What: "copy 4 GiB", Ms: ms, Note: strconv.FormatFloat(2*size/ms/1e9, 'f', 3, 64) + " TB/s"})
	for _, n := range []int{8192, 4096} {
		p, err := e.dev.Plan(cuda.Matmul{Rows: n, In: n, Out: n, Input: cuda.BFloat16, Output: cuda.BFloat16})
		m.must(err)
		m.must(p.Tune(e.s, to, e.w.base, e.w.base.Add(1<<30)))
		ms := m.median(e, 7, func() error { return p.Queue(e.s, to, e.w.base, e.w.base.Add(1<<30)) })
		rate := 2 * float64(n) * float64(n) * float64(n) / ms * 1e3
		m.gemm = max(m.gemm, rate)
		m.add(speedRow{What: "gemm", Prompt: n, Ms: ms, Note: strconv.FormatFloat(rate/1e12, 'f', 1, 64) + " TFLOP/s"})
		m.must(p.Close())
	}
	m.must(e.dev.Free(to))
	m.must(e.dev.Free(sink))
}

// decode measures steps whose mean context is ctx.
func (m *meter) decode(batch, ctx int, shape string) {
	const gen = 65
	begin := time.Now()
	opt := m.options(1, batch, ctx-gen/2, gen, shape)
	e := open(m.t, m.model, opt)
	m.must(e.s.Sync())
	m.add(speedRow{What: "load", Batch: batch, Prompt: ctx, Ms: time.Since(begin).Seconds() * 1e3})
	m.ceilings(e)
	m.must(e.SetPrompts(randomPrompts(1, batch, e.opt.PromptLen, e.shape.vocab)))
	first, err := e.Prefill()
	m.must(err)
	var device, host []float64
	a, err := e.dev.NewEvent()
	m.must(err)
	b, err := e.dev.NewEvent()
	m.must(err)
	for pass := range 3 {
		m.must(e.Rewind(first))
		for range gen - 1 {
			start := time.Now()
			m.must(a.Record(e.s))
			m.must(e.StartStep())
			m.must(b.Record(e.s))
			_, err := e.tokens()
			m.must(err)
			d, err := b.Since(a)
			m.must(err)
			if pass > 0 {
				device = append(device, float64(d)*1e3)
				host = append(host, time.Since(start).Seconds()*1e3)
			}
		}
	}
	slices.Sort(device)
	slices.Sort(host)
	s := &e.shape
	bytes := e.w.stored - int64(2*s.vocab*s.hidden) - s.unread(batch) + int64(2*2*s.layers*s.kvHeads*s.headDim*ctx*batch)
	floor := float64(bytes) / m.bandwidth * 1e3
	ms := device[len(device)/2]
	m.add(speedRow{What: "decode step", Batch: batch, Prompt: ctx, Ms: ms, HostMs: host[len(host)/2], Floor: floor, Ratio: ms / floor,
		Note: shape})
	m.operators(e, first)
	m.must(a.Close())
	m.must(b.Close())
	m.must(e.Close())
}

// unread returns the bytes of the experts that a step does not read, if each token chooses
// uniformly.
func (s *shape) unread(batch int) int64 {
	if s.experts == 0 {
		return 0
	}
	left := math.Pow(1-float64(s.topK)/float64(s.experts), float64(batch))
	return int64(left * float64(2*3*s.layers*s.experts*s.hidden*s.inner))
}

// prefillOperators times the operators of a prefill one by one.
func (m *meter) prefillOperators(e *Engine) {
	r, err := e.ReplayPrefill()
	m.must(err)
	for range 4 {
		m.must(r.Round())
	}
	for _, o := range r.All() {
		m.add(speedRow{What: "op " + o.Name, Prompt: e.opt.PromptLen, Ms: median(o.Times[1:]) * 1e3})
	}
	m.must(r.Close())
}

// spread reports whether the embeddings of the model are large, as measurements of MoE
// models have them.
func (m *meter) spread() bool {
	return strings.Contains(m.model, "num_experts") && os.Getenv("LLMPROF_NATIVE_SPEED_SPREAD") != "0"
}

// options returns the options of a case.
func (m *meter) options(tp, batch, prompt, gen int, shape string) Options {
	opt := Options{Seed: 1, TP: tp, Workload: operator.Workload{Batch: batch, PromptLen: prompt, GenLen: gen}, Spread: m.spread()}
	shape, parts, split := strings.Cut(shape, "%")
	if split {
		opt.splits = number(m.t, parts)
	}
	shape = m.formats(&opt, shape)
	if shape == "cublas" {
		opt.GEMM = CublasGEMM
	} else if rings, ok := strings.CutPrefix(shape, "wide"); ok {
		whole := modelOf(m.t, m.model, opt)
		sh, err := whole.shape(0)
		m.must(err)
		if opt.wgmma = wgmmaGEMMs(&sh, batch, 132); opt.wgmma == nil {
			m.t.Fatalf("no wgmma GEMMs of batch %d", batch)
		}
		parseWGMMA(m.t, &opt.wgmma[0].wgmma, rings)
	} else if shape != "" {
		opt.skinny = m.ring(&opt, shape)
	}
	return opt
}

// formats parses the formats that a case begins with, and returns the rest of the case.
func (m *meter) formats(opt *Options, shape string) string {
	names, rest, _ := strings.Cut(shape, "=")
	for name := range strings.SplitSeq(names, "+") {
		switch name {
		case "fp16":
			opt.FP16 = true
		case "fp8", "int4":
			var err error
			opt.Quantization, err = ParseQuantization(name)
			m.must(err)
		default:
			return shape
		}
	}
	return rest
}

// ring returns Options.rings with another ring for the batch, for quantized weights if there are
// any.
func (m *meter) ring(opt *Options, shape string) []gemmKernels {
	out := opt.rings()
	for i := range out {
		if opt.Batch > out[i].rows || out[i].quant != opt.Quantization {
			continue
		}
		uses := strings.Split(shape, "_")
		f := strings.Split(uses[0], "/")
		if f[0] != "" {
			out[i].tiles, out[i].depth, out[i].stages = number(m.t, f[0]), number(m.t, f[1]), number(m.t, f[2])
		}
		if len(f) > 3 {
			out[i].residualRing.stages = number(m.t, f[3])
		}
		if len(f) > 5 {
			out[i].rowWarps, out[i].warps = number(m.t, f[4]), number(m.t, f[5])
		}
		if len(uses) > 2 {
			f, g := strings.Split(uses[1], "/"), strings.Split(uses[2], "/")
			out[i].swigluRing, out[i].residualRing = m.ringOf(f), m.ringOf(g)
		}
		break
	}
	return out
}

// ringOf returns the ring of tiles, stages and columns; without columns they are those of the
// others.
func (m *meter) ringOf(f []string) ring {
	r := ring{tiles: number(m.t, f[0]), stages: number(m.t, f[1])}
	if len(f) > 2 {
		r.depth = number(m.t, f[2])
	}
	return r
}

// operators times each operator of all layers by itself, as "llmprof measure
// --ops" does.
func (m *meter) operators(e *Engine, first []int32) {
	s := &e.shape
	weights := func(out, in int) int {
		data, scales, zeros := s.quant.bytes(out, in)
		return s.layers * (data + scales + zeros)
	}
	bytes := map[string]int{
		"qkv_proj":  weights(s.qkvWidth(), s.hidden),
		"attention": s.layers * 4 * s.kvHeads * s.headDim * (e.opt.PromptLen + e.opt.GenLen/2) * e.opt.Batch,
		"o_proj":    weights(s.hidden, s.attWidth()), "gate_up_proj": weights(2*s.inner, s.hidden),
		"down_proj": weights(s.hidden, s.inner), "lm_head": 2 * s.hidden * s.vocab, "sampling": 4 * s.vocab * e.opt.Batch,
	}
	if s.experts > 0 {
		read := func(out, in int) int {
			return 2*s.layers*s.experts*out*in - int(s.unread(e.opt.Batch)*int64(out)/int64(3*s.inner)*int64(in)/int64(s.hidden))
		}
		bytes["experts_gate_up"], bytes["experts_down"] = read(2*s.inner, s.hidden), read(s.inner, s.hidden)
	}
	r, err := e.ReplayStep(first)
	m.must(err)
	for range 8 {
		m.must(r.Round())
	}
	for _, o := range r.All() {
		row := speedRow{What: "op " + o.Name, Batch: e.opt.Batch, Ms: median(o.Times[1:]) * 1e3}
		if n := bytes[o.Name]; n > 0 {
			row.Floor = float64(n) / m.bandwidth * 1e3
			row.Ratio = row.Ms / row.Floor
		}
		m.add(row)
	}
	m.must(r.Close())
}

// prefill measures a prompt of one sequence.
func (m *meter) prefill(length int, shape string) {
	opt := Options{Seed: 1, Workload: operator.Workload{Batch: 1, PromptLen: length, GenLen: 1}, Spread: m.spread()}
	if rest := m.formats(&opt, shape); rest != "" {
		m.t.Fatalf("a prefill has no %q", rest)
	}
	e := open(m.t, m.model, opt)
	m.ceilings(e)
	m.must(e.SetPrompts(randomPrompts(1, 1, length, e.shape.vocab)))
	ms := m.median(e, 5, e.queuePrefill)
	var host []float64
	for range 5 {
		start := time.Now()
		_, err := e.Prefill()
		m.must(err)
		host = append(host, time.Since(start).Seconds()*1e3)
	}
	slices.Sort(host)
	s := &e.shape
	layer := float64(s.hidden)*float64(s.qkvWidth()+s.attWidth()) + 3*float64(s.hidden)*float64(s.inner)*float64(max(s.topK, 1))
	flops := 2*float64(length)*layer*float64(s.layers) + 2*float64(s.hidden)*float64(s.vocab) +
		float64(s.layers)*2*float64(length)*float64(length)*float64(s.attWidth())
	floor := flops / m.gemm * 1e3
	m.add(speedRow{What: "prefill", Batch: 1, Prompt: length, Ms: ms, HostMs: host[2], Floor: floor, Ratio: ms / floor, Note: shape})
	if s.experts > 0 {
		m.t.Logf("%d of %d experts of the last layer are hit", hits(m.t, e, min(length, e.b.rows)), s.experts)
	}
	m.prefillOperators(e)
	ms = m.median(e, 5, func() error { return e.queuePrefillAttention(0, 0, 1) })
	att := 2 * float64(length) * float64(length) * float64(s.attWidth())
	m.add(speedRow{What: "prefill attention of a layer", Prompt: length, Ms: ms, Note: strconv.FormatFloat(
		att/ms/1e9, 'f', 1, 64) + " TFLOP/s"})
	m.must(e.Close())
}

// ranks measures steps of a model that GPUs share, whose mean context is ctx, by rank 0's events.
func (m *meter) ranks(tp, batch, ctx int, shape string) {
	const gen = 65
	opt := m.options(tp, batch, ctx-gen/2, gen, shape)
	team := openShared(m.t, m.model, opt)
	m.must(team.SetPrompts(randomPrompts(1, batch, opt.PromptLen, team.Lead().shape.vocab)))
	first, err := team.Prefill()
	m.must(err)
	var device, host []float64
	tokens := make([][]int32, tp)
	m.must(team.Each(func(rank int, e *Engine) error {
		timer, err := e.NewTimer(func() int64 { return time.Now().UnixNano() })
		if err != nil {
			return err
		}
		for pass := range 3 {
			if err := e.Rewind(first); err != nil {
				return err
			}
			for range gen - 1 {
				d, token, err := timer.Time(e.StartStep)
				if err != nil {
					return err
				}
				tokens[rank] = append(tokens[rank], token...)
				if rank == 0 && pass > 0 {
					device, host = append(device, float64(d.Device)*1e3), append(host, float64(d.EndNS-d.BeginNS)/1e6)
				}
			}
		}
		return timer.Close()
	}))
	_, err = Agree(tokens)
	m.must(err)
	slices.Sort(device)
	slices.Sort(host)
	m.add(speedRow{What: fmt.Sprintf("decode step, tp %d", tp), Batch: batch, Prompt: ctx, Ms: device[len(device)/2],
		HostMs: host[len(host)/2], Note: shape})
	m.rankOperators(team, first)
	m.must(team.Close())
}

// rankOperators times each operator of all layers by itself, on all ranks at once.
func (m *meter) rankOperators(team *Team, first []int32) {
	replays := make([]*Replay, team.Ranks())
	m.must(team.Each(func(rank int, e *Engine) (err error) {
		replays[rank], err = e.ReplayStep(first)
		return err
	}))
	for range 8 {
		m.must(team.Each(func(rank int, _ *Engine) error { return replays[rank].Round() }))
	}
	for _, o := range replays[0].All() {
		ts := slices.Clone(o.Times[1:])
		slices.Sort(ts)
		m.add(speedRow{What: "op " + o.Name, Batch: team.Lead().opt.Batch, Ms: float64(ts[len(ts)/2]) * 1e3})
	}
	m.must(team.Each(func(rank int, _ *Engine) error { return replays[rank].Close() }))
}
