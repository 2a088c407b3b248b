package models_test

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/models"
	"llmprof/models/gguf"
	"llmprof/unit"
)

// A tensorList is the table of a file, with the shapes that llama.cpp's loaders ask for.
type tensorList []gguf.Tensor

func (l *tensorList) add(t testing.TB, name, kind string, dims ...int64) {
	t.Helper()
	of, err := gguf.ParseType(kind)
	testkit.Must(t, err)
	*l = append(*l, gguf.Tensor{Name: name, Dims: dims, Type: of})
}

// feedForward adds the three products of a feed-forward.
func (l *tensorList) feedForward(t testing.TB, blk, suffix string, hidden, width int64, experts ...int64) {
	t.Helper()
	l.add(t, blk+"ffn_gate"+suffix+".weight", "F16", append([]int64{hidden, width}, experts...)...)
	l.add(t, blk+"ffn_up"+suffix+".weight", "F16", append([]int64{hidden, width}, experts...)...)
	l.add(t, blk+"ffn_down"+suffix+".weight", "F16", append([]int64{width, hidden}, experts...)...)
}

// A mixtureFile is what the files of the two families have in common.
type mixtureFile struct {
	hidden, vocab, kv, dense, width, experts, expert int64
	heads                                            func(layer int) int64
	layers                                           int
	fused, normed, gated                             bool
	shared                                           int64 // width of what every token takes
}

func (f *mixtureFile) tensors(t testing.TB) (l tensorList) {
	t.Helper()
	l.add(t, "token_embd.weight", "F16", f.hidden, f.vocab)
	l.add(t, "output.weight", "F16", f.hidden, f.vocab)
	l.add(t, "output_norm.weight", "F32", f.hidden)
	for i := range f.layers {
		blk, q := fmt.Sprintf("blk.%d.", i), 128*f.heads(i)
		l.add(t, blk+"attn_norm.weight", "F32", f.hidden)
		l.add(t, blk+"ffn_norm.weight", "F32", f.hidden)
		if f.fused {
			l.add(t, blk+"attn_qkv.weight", "F16", f.hidden, q+2*128*f.kv)
		} else {
			l.add(t, blk+"attn_q.weight", "F16", f.hidden, q)
			l.add(t, blk+"attn_k.weight", "F16", f.hidden, 128*f.kv)
			l.add(t, blk+"attn_v.weight", "F16", f.hidden, 128*f.kv)
		}
		l.add(t, blk+"attn_output.weight", "F16", q, f.hidden)
		if f.normed {
			l.add(t, blk+"attn_q_norm.weight", "F32", 128)
			l.add(t, blk+"attn_k_norm.weight", "F32", 128)
		}
		if f.gated {
			l.add(t, blk+"attn_gate.weight", "F16", f.hidden, f.heads(i))
		}
		if int64(i) < f.dense {
			l.feedForward(t, blk, "", f.hidden, f.width)
			continue
		}
		l.add(t, blk+"ffn_gate_inp.weight", "F32", f.hidden, f.experts)
		l.feedForward(t, blk, "_exps", f.hidden, f.expert, f.experts)
		l.feedForward(t, blk, "_shexp", f.hidden, f.shared)
		if f.normed { // as all of the newer family
			l.add(t, blk+"exp_probs_b.bias", "F32", f.experts)
		}
	}
	return l
}

// Files of Step and Ling, by the keys and tensors of llama.cpp's loaders (src/models/step35.cpp, bailingmoe.cpp and
// bailingmoe2.cpp; MIT licence), are the built-in models.
func TestGGUFOfStepAndLing(t *testing.T) {
	const drafts = 3
	var heads, kv []uint32
	var slides []bool
	for i := range 45 + drafts {
		heads, kv, slides = append(heads, 64), append(kv, 8), append(slides, i%4 != 0)
		if slides[i] {
			heads[i] = 96
		}
	}
	for name, c := range map[string]struct {
		arch string
		file mixtureFile
		keys map[string]any
	}{
		"step-3.5-flash": {
			"step35", mixtureFile{
				hidden: 4096, vocab: 128896, kv: 8, dense: 3, width: 11264, experts: 288, expert: 1280, shared: 1280, layers: 45,
				heads: func(i int) int64 { return int64(heads[i]) }, normed: true, gated: true,
			}, map[string]any{
				"attention.head_count": heads, "attention.head_count_kv": kv, "attention.sliding_window_pattern": slides,
				"attention.sliding_window": uint64(512), "rope.dimension_count": uint64(128), "nextn_predict_layers": uint64(drafts),
				"block_count": uint64(45 + drafts), "expert_used_count": uint64(8),
			},
		},
		"ling-mini-2.0": {
			"bailingmoe2", mixtureFile{
				hidden: 2048, vocab: 157184, kv: 4, dense: 1, width: 5120, experts: 256, expert: 512, shared: 512, layers: 20,
				heads: func(int) int64 { return 16 }, normed: true, fused: true,
			}, map[string]any{
				"attention.head_count": uint64(16), "attention.head_count_kv": uint64(4), "rope.dimension_count": uint64(64),
				"block_count": uint64(20), "expert_used_count": uint64(8), "expert_shared_count": uint64(1),
			},
		},
		"ling-lite-1.5": {
			"bailingmoe", mixtureFile{
				hidden: 2048, vocab: 126464, kv: 4, width: 1408, experts: 64, expert: 1408, shared: 2816, layers: 28,
				heads: func(int) int64 { return 16 },
			}, map[string]any{
				"attention.head_count": uint64(16), "attention.head_count_kv": uint64(4), "rope.dimension_count": uint64(128),
				"block_count": uint64(28), "expert_used_count": uint64(6), "expert_shared_count": uint64(2),
			},
		},
	} {
		f := c.file
		values := map[string]any{"general.architecture": c.arch, "general.file_type": uint64(1)}
		for key, n := range map[string]int64{
			"embedding_length": f.hidden, "feed_forward_length": f.width, "expert_count": f.experts, "expert_feed_forward_length": f.expert,
			"leading_dense_block_count": f.dense, "attention.key_length": 128, "context_length": 32768,
		} {
			values[c.arch+"."+key] = uint64(n)
		}
		if c.arch != "bailingmoe" {
			values[c.arch+".expert_shared_feed_forward_length"] = uint64(f.shared)
		}
		for key, v := range c.keys {
			values[c.arch+"."+key] = v
		}
		header, size := writeGGUF(values, f.tensors(t))
		h, err := gguf.Parse(bytes.NewReader(header), size)
		testkit.Must(t, err)
		got, err := models.ReadGGUF(name, h)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want, err := builtIn(t).Model(name)
		testkit.Must(t, err)
		if got.Params() != want.Params() || got.ActiveParams() != want.ActiveParams() ||
			got.CacheBytes(32768, unit.BF16) != want.CacheBytes(32768, unit.BF16) {
			t.Errorf("%s: %d parameters, %d active, %g bytes of cache; want %d, %d, %g", name, got.Params(), got.ActiveParams(),
				float64(got.CacheBytes(32768, unit.BF16)), want.Params(), want.ActiveParams(), float64(want.CacheBytes(32768, unit.BF16)))
		}
		for i := range want.Layers {
			if a, b := got.Layers[i].Blocks[0].Attention, want.Layers[i].Blocks[0].Attention; a.RotaryDim != b.RotaryDim || a.Window != b.Window {
				t.Errorf("%s: layer %d rotates %d of a window of %d, want %d of %d", name, i, a.RotaryDim, a.Window, b.RotaryDim, b.Window)
			}
		}
	}
}

// The lists of step35 are refused where they are none.
func TestGGUFStepLists(t *testing.T) {
	good := map[string]any{
		"general.architecture": "step35", "step35.attention.head_count": []uint32{64, 96}, "step35.attention.head_count_kv": []uint32{8, 8},
		"step35.attention.sliding_window_pattern": []bool{false, true}, "step35.block_count": uint64(2), "step35.embedding_length": uint64(256),
		"step35.feed_forward_length": uint64(512), "step35.attention.key_length": uint64(128),
	}
	for key, c := range map[string]struct {
		value any
		want  string
	}{
		"attention.sliding_window_pattern": {uint64(4), "sliding_window_pattern is no list"},
		"attention.head_count":             {[]uint32{64}, "head_count has 1 entries and sliding_window_pattern 2"},
		"attention.head_count_kv":          {[]uint32{8, 1 << 30}, "head_count_kv holds 1073741824"},
		"block_count":                      {uint64(3), "layer_types has 2 entries for 3 layers"},
	} {
		values := map[string]any{}
		maps.Copy(values, good)
		values["step35."+key] = c.value
		var l tensorList
		l.add(t, "token_embd.weight", "F16", 256, 512)
		header, size := writeGGUF(values, l)
		h, err := gguf.Parse(bytes.NewReader(header), size)
		testkit.Must(t, err)
		if _, err := models.ReadGGUF("x", h); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", key, err, c.want)
		}
	}
}

// A file of Ling 3.0, by the keys and tensors of llama.cpp's loader (src/models/bailingmoe3.cpp), is the built-in model,
// with a layer for drafts or without.
func TestGGUFOfLing3(t *testing.T) {
	const hidden, inner, vocab = 1536, 2048, 157184
	want, err := builtIn(t).Model("ling-3.0-tiny")
	testkit.Must(t, err)
	for _, drafts := range []int{0, 1} {
		var l tensorList
		var kv []uint32
		l.add(t, "token_embd.weight", "F16", hidden, vocab)
		l.add(t, "output.weight", "F16", hidden, vocab)
		l.add(t, "output_norm.weight", "F32", hidden)
		for i := range 24 {
			blk := fmt.Sprintf("blk.%d.", i)
			l.add(t, blk+"attn_norm.weight", "F32", hidden)
			l.add(t, blk+"ffn_norm.weight", "F32", hidden)
			if i%4 == 3 {
				kv = append(kv, 1)
				l.latentOfLing3(t, blk)
			} else {
				kv = append(kv, 0)
				l.deltaOfLing3(t, blk)
			}
			l.add(t, blk+"attn_output.weight", "F16", inner, hidden)
			if i == 0 {
				l.feedForward(t, blk, "", hidden, 4608)
				continue
			}
			l.add(t, blk+"ffn_gate_inp.weight", "F32", hidden, 128)
			l.add(t, blk+"exp_probs_b.bias", "F32", 128)
			l.feedForward(t, blk, "_exps", hidden, 512, 128)
			l.feedForward(t, blk, "_shexp", hidden, 512)
		}
		if drafts > 0 {
			kv = append(kv, 1)
			l.add(t, "blk.24.nextn.eh_proj.weight", "F16", 2*hidden, hidden)
		}
		values := map[string]any{"general.architecture": "bailingmoe3", "general.file_type": uint64(1), "bailingmoe3.attention.head_count_kv": kv}
		for key, n := range map[string]int{
			"embedding_length": hidden, "feed_forward_length": 4608, "block_count": 24 + drafts, "context_length": 131072,
			"attention.head_count": 16, "attention.q_lora_rank": 256, "attention.kv_lora_rank": 512, "attention.key_length": 576,
			"attention.key_length_mla": 192, "attention.value_length_mla": 128, "rope.dimension_count": 64, "ssm.conv_kernel": 4,
			"kda.head_dim": 128, "expert_count": 128, "expert_used_count": 8, "expert_feed_forward_length": 512,
			"expert_shared_feed_forward_length": 512, "expert_shared_count": 1, "leading_dense_block_count": 1, "nextn_predict_layers": drafts,
		} {
			values["bailingmoe3."+key] = uint64(n)
		}
		header, size := writeGGUF(values, l)
		h, err := gguf.Parse(bytes.NewReader(header), size)
		testkit.Must(t, err)
		got, err := models.ReadGGUF("ling-3.0-tiny", h)
		testkit.Must(t, err)
		if got.Params() != want.Params() || got.ActiveParams() != want.ActiveParams() ||
			got.CacheBytes(9999, unit.BF16) != want.CacheBytes(9999, unit.BF16) {
			t.Errorf("with %d drafts: %d parameters, %d active, %g bytes of cache; want %d, %d, %g", drafts, got.Params(), got.ActiveParams(),
				float64(got.CacheBytes(9999, unit.BF16)), want.Params(), want.ActiveParams(), float64(want.CacheBytes(9999, unit.BF16)))
		}
	}
}

func (l *tensorList) latentOfLing3(t testing.TB, blk string) {
	t.Helper()
	l.add(t, blk+"attn_q_a.weight", "F16", 1536, 256)
	l.add(t, blk+"attn_q_a_norm.weight", "F32", 256)
	l.add(t, blk+"attn_q_b.weight", "F16", 256, 16*192)
	l.add(t, blk+"attn_kv_a_mqa.weight", "F16", 1536, 512+64)
	l.add(t, blk+"attn_kv_a_norm.weight", "F32", 512)
	l.add(t, blk+"attn_k_b.weight", "F16", 128, 512, 16)
	l.add(t, blk+"attn_v_b.weight", "F16", 512, 128, 16)
	l.add(t, blk+"attn_gate.weight", "F16", 1536, 16)
}

func (l *tensorList) deltaOfLing3(t testing.TB, blk string) {
	t.Helper()
	for _, name := range []string{"attn_q", "attn_k", "attn_v", "ssm_f_a", "ssm_g_a"} {
		l.add(t, blk+name+".weight", "F16", 1536, 2048)
	}
	for _, of := range []string{"q", "k", "v"} {
		l.add(t, blk+"ssm_conv1d_"+of+".weight", "F32", 4, 1, 2048, 1)
	}
	l.add(t, blk+"ssm_beta.weight", "F16", 1536, 16)
	l.add(t, blk+"ssm_a", "F32", 1, 16)
	l.add(t, blk+"ssm_dt.bias", "F32", 2048)
	l.add(t, blk+"ssm_norm.weight", "F32", 128)
}
