package models

import (
	"math"
	"slices"
	"testing"

	"llmprof/internal/testkit"
)

// Tokens of images of 1024x1024, 640x480, 1280x720, 2000x3000 and 100x60 pixels as the processors of transformers 5.24 count them
// (_get_num_multimodal_tokens, with the pixels that published preprocessors allow).
func TestImageTokens(t *testing.T) {
	want := map[string][]int{
		"qwen2_vl": {1369, 391, 1196, 7597, 8}, "qwen3_vl": {1024, 300, 880, 5828, 77}, "qwen3_5_moe": {1024, 300, 880, 5828, 77},
		"glm4v": {1369, 391, 1196, 7420, 8}, "glm46v": {1369, 391, 1196, 7420, 8}, "glm5_next": {1369, 414, 1196, 7776, 24},
		"kimi_k25": {1369, 414, 1196, 4187, 12}, "minimax_m3_vl": {576, 391, 576, 551, 8}, "mistral3": {1406, 432, 1222, 2090, 15},
		"internvl": {2562, 3330, 2306, 1794, 1794}, "gemma3": {256, 256, 256, 256, 256}, "llava": {576, 576, 576, 576, 576},
		"paligemma": {256, 256, 256, 256, 256},
	}
	for _, b := range readBuilt(t) {
		tokens := want[b.ModelType]
		if b.Causal && b.ModelType != "gemma3" || tokens == nil {
			continue
		}
		delete(want, b.ModelType)
		m, err := Read(b.ModelType, b.Config)
		testkit.Must(t, err)
		var got []int
		for _, size := range [][2]int{{1024, 1024}, {640, 480}, {1280, 720}, {2000, 3000}, {100, 60}} {
			i, err := m.Image(size[0], size[1])
			testkit.Must(t, err)
			got = append(got, i.Tokens)
		}
		if !slices.Equal(got, tokens) {
			t.Errorf("%s: %v tokens, want %v", b.ModelType, got, tokens)
		}
	}
	if len(want) > 0 {
		t.Errorf("not found: %v", want)
	}
}

// Gemma 4 fills 280 tokens as its processor does; Llama 4 takes the tiles that its own does.
func TestImageGrids(t *testing.T) {
	for _, c := range []struct {
		rule       mediaRule
		size, want [2]int
	}{
		{mediaRule{Rule: "fill", Unit: "48", Most: "280"}, [2]int{1024, 1024}, [2]int{16, 16}},
		{mediaRule{Rule: "fill", Unit: "48", Most: "280"}, [2]int{640, 480}, [2]int{19, 14}},
		{mediaRule{Rule: "fill", Unit: "48", Most: "280"}, [2]int{2000, 3000}, [2]int{13, 20}},
		{mediaRule{Rule: "canvas", Unit: "336", Most: "16"}, [2]int{336, 336}, [2]int{1, 1}},
		{mediaRule{Rule: "canvas", Unit: "336", Most: "16"}, [2]int{800, 400}, [2]int{3, 2}},
		{mediaRule{Rule: "canvas", Unit: "336", Most: "16"}, [2]int{5000, 5000}, [2]int{4, 4}},
	} {
		m := media{mediaRule: c.rule, fields: map[string]any{}}
		w, h, err := m.grid(float64(c.size[0]), float64(c.size[1]))
		if testkit.Must(t, err); [2]int{w, h} != c.want {
			t.Errorf("%s of %v: %d by %d, want %v", c.rule.Rule, c.size, w, h, c.want)
		}
	}
}

// The FLOPs of an encoder are those that torch counts (FlopCounterMode) for the products of the encoder that transformers builds, some with
// one layer. The token of the class, which no patch makes, goes through the embedding of patches here.
func TestEncoderFLOPs(t *testing.T) {
	const gemm = 2
	for _, c := range []struct {
		family        string
		layers        int
		width, height int
		attention     bool    // torch counted attention
		beside        float64 // FLOPs of the projector, which is no part of the encoder there
		want          float64
	}{
		{"llava", 0, 336, 336, true, gemm * 576 * (1024*4096 + 4096*4096), 381918216192},
		{"paligemma", 0, 224, 224, true, gemm * 256 * 1152 * 2048, 212343717888},
		{"mistral3", 0, 560, 420, true, gemm * 315 * (4*1024*1024 + 1024*5120 + 5120*5120), 1109370470400},
		{"qwen3_5", 1, 256, 192, false, 0, 10149691392},
		{"qwen2_vl", 1, 224, 168, false, 0, 12405964800},
	} {
		for _, b := range readBuilt(t) {
			if b.ModelType != c.family || b.Causal {
				continue
			}
			m, err := Read(b.ModelType, b.Config)
			testkit.Must(t, err)
			if c.layers > 0 {
				x := m.media["image"]
				x.Least, x.fields["depth"] = "1", asNumber(c.layers)
				m.media["image"] = x
			}
			i, err := m.Image(c.width, c.height)
			testkit.Must(t, err)
			got := i.FLOPs - c.beside
			if !c.attention {
				got -= 4 * float64(i.Layers*i.Width) * i.Rows * i.Rows
			}
			if math.Abs(got/c.want-1) > 1e-5 {
				t.Errorf("%s: %.0f FLOPs, want %.0f", c.family, got, c.want)
			}
		}
	}
}

// Audio of Qwen's models: 25 tokens a second before version 3, and 13 in each of them since.
func TestAudioTokens(t *testing.T) {
	seen := 0
	for _, b := range readBuilt(t) {
		want, ok := map[string]int{"qwen2_5_omni_thinker": 750, "phi4_multimodal": 375}[b.ModelType]
		if !ok {
			continue
		}
		seen++
		m, err := Read(b.ModelType, b.Config)
		testkit.Must(t, err)
		a, err := m.Audio(30)
		testkit.Must(t, err)
		if a.Tokens != want || a.FLOPs < 1e11 {
			t.Errorf("%s: %d tokens, want %d; %g FLOPs", b.ModelType, a.Tokens, want, a.FLOPs)
		}
	}
	if seen < 2 {
		t.Errorf("%d models with audio", seen)
	}
}
