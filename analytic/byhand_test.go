package analytic_test

import (
	"testing"

	"llmprof/models"
	"llmprof/unit"
)

// The five answers that the README and the manual show, each worked out a second
// time from the published shape and the data sheet alone: no function of this
// package takes part in what is wanted.

// Llama-2-70B: 80 layers, h 8192, 64 heads, 8 KV heads of 128, FFN 28672, V 32000.
func TestByHandLlama70BOnEightA100(t *testing.T) {
	c := testCase(t, "llama2-70b", "a100", 32, 8)
	r := explain(t, c)
	const (
		b, s, g    = 32.0, 1024.0, 128.0
		layer      = 8192*(8192+2*1024) + 8192*8192 + 3*8192*28672
		head       = 32000 * 8192
		peak, bw   = 312e12, 2.039e12
		mean       = s + (g-2)/2 + 1 // keys of the mean decode step
		kvPerToken = 2 * 80 * 128 * 1 * 2.0
	)
	flops := 2*b*s*80*layer + 80*4*64*128*b*s*(s+1)/2 + 2*b*head
	near(t, "prefill FLOPs", float64(r.Prefill.FLOPs), flops, 1e-9)
	near(t, "TTFT floor", float64(r.TTFT.Floor), flops/8/peak, 1e-3)

	weights := 2.0 * (80*layer + head) / 8
	norms := 2.0 * 161 * 8192
	rows := b * 8192 * 2.0 // of the embedding
	kv := b * kvPerToken * (mean + 1)
	near(t, "TPOT floor", float64(r.TPOT.Floor), (weights+norms+rows+kv)/bw, 1e-6)

	near(t, "weights of a GPU", float64(r.Memory.Weights), (2*(68976648192-161*8192))/8.0+norms, 1e-9)
	near(t, "KV of a GPU", float64(r.Memory.KV), b*kvPerToken*(s+g), 1e-9)
	wire := 2.0 * 80 * (2.0 * 7 / 8) * (b * 8192 * 2)
	near(t, "all-reduce bytes of a step", float64(line(t, r.DecodeOps, "all_reduce").Wire), wire, 1e-9)
	if !r.Memory.Fits() {
		t.Error("18 GB of weights and 1.5 GB of cache do not fit 80 GB")
	}
}

// Qwen3-30B-A3B: 48 layers, h 2048, 32 heads and 4 KV heads of 128, 8 of 128
// experts of 768, V 151936.
func TestByHandQwen30BA3BOnA100(t *testing.T) {
	r := explain(t, testCase(t, "qwen3-30b-a3b", "a100", 1, 1))
	const (
		attn   = 2048*4096*2 + 2*2048*512
		expert = 3 * 2048 * 768
		router = 2048 * 128
		head   = 151936 * 2048
		norms  = 48*(2*2048+2*128) + 2048
		mean   = 1024 + 63 + 1
		kv     = 2 * 48 * 4 * 128 * 2.0
	)
	read := 2.0*(48*(attn+8*expert+router)+head+norms) + 2*2048 + kv*(mean+1)
	near(t, "TPOT floor", float64(r.TPOT.Floor), read/2.039e12, 1e-6)
	near(t, "weights in memory", float64(r.Memory.Weights), 2*30532122624.0, 1e-9)
	near(t, "KV", float64(r.Memory.KV), 98304*1152.0, 1e-9)

	const tokens = 1024.0
	flops := 2*tokens*48*(attn+8*expert+router) + 48*4*32*128*tokens*(tokens+1)/2 + 2*head
	near(t, "prefill FLOPs", float64(r.Prefill.FLOPs), flops, 1e-9)
	// 1024 tokens of 8 choices leave no expert of 128 untouched: (1-1/16)^1024 < 1e-28.
	near(t, "experts read in prefill", float64(line(t, r.PrefillOps, "experts_down").Weights), 48*128*2048*768*2.0, 1e-9)
}

// DeepSeek-V3: 61 layers (3 dense), h 7168, 128 heads, latent 512 + 64, 8 of 256
// experts of 2048 and a shared one, FP8 in blocks of 128×128.
func TestByHandDeepSeekV3OnH200(t *testing.T) {
	for _, gpus := range []int{8, 16} {
		c := testCase(t, "deepseek-v3", "h200", 1, gpus)
		c.Scheme = models.StoredScheme(c.Model).For(c.Machine.GPU)
		r := explain(t, c)
		const (
			replicated = 7168*1536 + 7168*(512+64)
			cut        = 1536*128*192 + 512*128*(128+128) + 128*128*7168
			dense      = 3 * 7168 * 18432
			expert     = 3 * 7168 * 2048
			router     = 7168 * 256
			head       = 129280 * 7168
			norms      = 61*(2*7168+1536+512) + 7168
			scale      = 1 + 4.0/(128*128)
		)
		n := float64(gpus)
		quantized := 61*(replicated+cut/n) + 3*dense/n + 58*(257*expert)/n
		want := quantized*scale + 2*(58*router+2*head/n+norms)
		near(t, "weights of a GPU", float64(r.Memory.Weights), want, 1e-4)
		near(t, "KV of a GPU", float64(r.Memory.KV), 61*(512+64)*2.0*1152, 1e-9) // every rank holds the latent
		read := (61*(replicated+cut/n)+3*dense/n+58*(9*expert)/n)*scale + 2*(58*router+head/n+norms)
		mean := 1024 + 63 + 1.0
		read += 61*(512+64)*2*(mean+1) + 2*7168
		near(t, "bytes of a decode step", float64(r.Decode.Compulsory), read, 1e-4)
		if !r.Memory.Fits() {
			t.Errorf("%d H200: %v do not fit", gpus, r.Memory.Total)
		}
		if gpus == 16 && line(t, r.DecodeOps, "all_reduce").Wire <= line(t, explain(t, testCase(t, "deepseek-v3", "h200", 1, 8)).DecodeOps,
			"all_reduce").Wire {
			t.Error("an all-reduce over two nodes sends no more than one within a node")
		}
	}
}

// DeepSeek-V4-Flash: 43 layers with a window of 128, of which 21 keep an entry of
// every 4 tokens, with the 128 values of its indexer, and 20 one of every 128;
// keys and values are the same 512. An entry of a cache in FP8 has 448 bytes, 64 rotated values in
// 16 bits and 8 bytes of scales; the indexer's key has 128 bytes and a float32.
func TestByHandDeepSeekV4Cache(t *testing.T) {
	const key = 128 + 4
	for _, x := range []struct {
		prompt int
		kv     unit.Format
		entry  float64
	}{{1024, unit.BF16, 2 * 512}, {131072, unit.BF16, 2 * 512}, {131072, unit.FP8, 448 + 2*64 + 8}} {
		c := testCase(t, "deepseek-v4-flash", "h200", 2, 8)
		c.Workload.PromptLen, c.Scheme.KV = x.prompt, x.kv
		r := explain(t, c)
		context := float64(x.prompt + c.Workload.GenLen)
		bytes := 43*128*x.entry + 21*context/4*(x.entry+key) + 20*context/128*x.entry
		near(t, "KV of a GPU", float64(r.Memory.KV), 2*bytes, 1e-9)

		mean := float64(x.prompt) + 63 + 1
		read := 43*128*x.entry + 21*(min(mean/4, 512)*x.entry+mean/4*key) + 20*mean/128*x.entry
		written := 43*x.entry + 21*(x.entry+key)/4.0 + 20*x.entry/128.0
		moved := 0.0
		for _, l := range r.DecodeOps {
			moved += float64(l.KV)
		}
		near(t, "KV of a decode step", moved, 2*(read+written), 1e-3)
	}
}

// DeepSeek-V3.2: 61 layers with a latent of 512, 64 rotated values and an indexer's key of 128 in FP8 with a float32. In
// FP8 the latent has a float32 for each 128 values, and the rotated values keep 16 bits.
func TestByHandSparseLatentCache(t *testing.T) {
	for kv, entry := range map[unit.Format]float64{unit.BF16: 2 * (512 + 64), unit.FP8: 512 + 16 + 2*64} {
		c := testCase(t, "deepseek-v3.2", "h200", 2, 8)
		c.Workload.PromptLen, c.Scheme.KV = 32768, kv
		r := explain(t, c)
		context := float64(c.Workload.PromptLen + c.Workload.GenLen)
		near(t, "KV of a GPU", float64(r.Memory.KV), 2*61*context*(entry+132), 1e-9)
		mean := float64(c.Workload.PromptLen) + 63 + 1
		moved := 0.0
		for _, l := range r.DecodeOps {
			moved += float64(l.KV)
		}
		near(t, "KV of a decode step", moved, 2*61*(2048*entry+mean*132+entry+132), 1e-3)
	}
}

// Each query of sparse attention has keys of its own, so that prompts longer than the indexer's choice attend to the latent
// vectors as decode does: 576 values of a key and 512 of a value in each head. Shorter ones expand keys of 192 and values of 128.
func TestByHandSparseLatentPrefill(t *testing.T) {
	for prompt, dims := range map[int]float64{2048: 192 + 128, 8192: 576 + 512} {
		c := testCase(t, "deepseek-v3.2", "h200", 1, 8)
		c.Workload.PromptLen = prompt
		n := float64(prompt)
		pairs := n * (n + 1) / 2
		if n > 2048 {
			pairs = 2048*2049/2 + (n-2048)*2048
		}
		flops := 0.0
		for _, l := range explain(t, c).PrefillOps {
			if l.Name == "latent_attention" {
				flops += float64(l.FLOPs)
			}
		}
		near(t, "FLOPs of attention", flops, 61*2*16*dims*pairs, 1e-9)
	}
}

// Nemotron-H-8B: 52 layers of which 24 are Mamba-2, 24 MLPs and 4 attentions; h
// 4096, 128 heads of 64 with 128 states, 8 groups, MLP 21504 ungated.
func TestByHandNemotronHOnA6000(t *testing.T) {
	r := explain(t, testCase(t, "nemotron-h-8b", "a6000", 1, 1))
	const (
		inner = 128 * 64
		conv  = inner + 2*8*128
		mamba = 4096*(2*inner+2*8*128+128) + inner*4096
		mlp   = 2 * 4096 * 21504
		attn  = 4096*(4096+2*1024) + 4096*4096
		head  = 131072 * 4096
		state = 24 * (128*64*128 + conv*4) * 2.0
		kv    = 4 * 2 * 1024 * 2.0
	)
	near(t, "KV", float64(r.Memory.KV), kv*1152, 1e-9)
	near(t, "state", float64(r.Memory.State), state, 0.01)
	read := 2.0*(24*mamba+24*mlp+4*attn+head) + kv*1089 + 2*state
	near(t, "bytes of a decode step", float64(r.Decode.Compulsory), read, 2e-4)
	near(t, "TPOT floor", float64(r.TPOT.Floor), read/768e9, 2e-4)
	if r.Memory.MaxBatch < 100 {
		t.Errorf("a state of 52 MB and a cache of 19 MB a sequence, and only %d fit beside the weights", r.Memory.MaxBatch)
	}
}

// Llama-3.2-1B: 16 layers, h 2048, 32 heads and 8 KV heads of 64, FFN 8192, V
// 128256, tied.
func TestByHandLlama1BOnOrinNano(t *testing.T) {
	c := testCase(t, "llama3.2-1b", "orin-nano", 1, 1)
	r := explain(t, c)
	const (
		layer = 2048*(2048+2*512) + 2048*2048 + 3*2048*8192
		head  = 128256 * 2048
	)
	near(t, "weights", float64(r.Memory.Weights), 2*1235814400.0, 1e-9)
	read := 2.0*(16*layer+head+33*2048) + 2*2048 + 2*16*512*2*1089.0
	near(t, "TPOT floor", float64(r.TPOT.Floor), read/68e9, 1e-6)
	flops := 2*1024.0*16*layer + 16*4*32*64*1024.0*1025/2 + 2*head
	near(t, "TTFT floor", float64(r.TTFT.Floor), flops/10e12, 1e-6)
	if got := c.Scheme.KV; got != unit.BF16 {
		t.Errorf("cache in %v: Orin has bf16", got)
	}
}
