package native

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"llmprof"
	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/internal/testkit"
	"llmprof/measure/native/cuda"
	"llmprof/measure/native/internal/emulate"
	"llmprof/models"
	"llmprof/models/safetensors"
	"llmprof/unit"
)

// shareable has small models of each family that four GPUs can share. Some have a vocabulary that
// does not divide evenly, and two have fewer key heads than GPUs.
func shareable() map[string]string {
	return map[string]string{
		"llama": `{"model_type":"llama","hidden_size":256,"intermediate_size":768,"num_hidden_layers":2,"num_attention_heads":8,
			"num_key_value_heads":4,"head_dim":64,"vocab_size":1000,"rms_norm_eps":1e-5,"rope_theta":500000.0}`,
		"mistral": `{"model_type":"mistral","hidden_size":512,"intermediate_size":1024,"num_hidden_layers":2,"num_attention_heads":4,
			"num_key_value_heads":4,"head_dim":128,"vocab_size":776,"rms_norm_eps":1e-5,"rope_theta":10000.0,"sliding_window":null}`,
		"qwen2": `{"model_type":"qwen2","hidden_size":448,"intermediate_size":1152,"num_hidden_layers":2,"num_attention_heads":28,"head_dim":64,
			"num_key_value_heads":4,"vocab_size":1001,"rms_norm_eps":1e-6,"rope_theta":1000000.0,"tie_word_embeddings":true,` +
			`"use_sliding_window":false}`,
		"qwen3": `{"model_type":"qwen3","hidden_size":256,"intermediate_size":640,"num_hidden_layers":3,"num_attention_heads":8,
			"num_key_value_heads":4,"head_dim":128,"vocab_size":1024,"rms_norm_eps":1e-6,"rope_theta":1000000.0,"tie_word_embeddings":true}`,
		"gemma2": `{"model_type":"gemma2","hidden_size":256,"intermediate_size":640,"num_hidden_layers":3,"num_attention_heads":8,
			"num_key_value_heads":4,"head_dim":64,"vocab_size":1003,"hidden_act":"gelu_pytorch_tanh","hidden_activation":"gelu_pytorch_tanh",
			"rms_norm_eps":1e-6,"rope_theta":10000.0,"tie_word_embeddings":true,"sliding_window":20,"query_pre_attn_scalar":100,
			"attn_logit_softcapping":1.5,"final_logit_softcapping":0.5}`,
		"gemma3": `{"model_type":"gemma3_text","hidden_size":320,"intermediate_size":896,"num_hidden_layers":2,"num_attention_heads":4,
			"num_key_value_heads":4,"head_dim":64,"vocab_size":1003,"hidden_activation":"gelu_pytorch_tanh","rms_norm_eps":1e-6,
			"rope_theta":1000000.0,"rope_local_base_freq":10000.0,"tie_word_embeddings":true,"sliding_window":33,"sliding_window_pattern":2,
			"query_pre_attn_scalar":50,"rope_scaling":{"rope_type":"linear","factor":8.0}}`,
		"qwen3_moe": `{"model_type":"qwen3_moe","hidden_size":256,"intermediate_size":512,"moe_intermediate_size":384,"num_hidden_layers":2,
			"num_attention_heads":4,"num_key_value_heads":4,"head_dim":64,"vocab_size":1001,"rms_norm_eps":1e-6,"rope_theta":1000000.0,
			"num_experts":7,"num_experts_per_tok":3,"norm_topk_prob":true,"decoder_sparse_step":1,"mlp_only_layers":[],"tie_word_embeddings":false}`,
		"mixtral": `{"model_type":"mixtral","hidden_size":320,"intermediate_size":256,"num_hidden_layers":2,"num_attention_heads":4,"head_dim":64,
			"num_key_value_heads":4,"vocab_size":1000,"rms_norm_eps":1e-5,"rope_theta":1000000.0,"num_local_experts":4,"num_experts_per_tok":2,
			"sliding_window":null,"tie_word_embeddings":false}`,
		"copies": `{"model_type":"qwen2","hidden_size":320,"intermediate_size":768,"num_hidden_layers":2,"num_attention_heads":8,"head_dim":64,
			"num_key_value_heads":2,"vocab_size":1000,"rms_norm_eps":1e-6,"rope_theta":1000000.0,"tie_word_embeddings":false,` +
			`"use_sliding_window":false}`,
		"multi_query": `{"model_type":"gemma3_text","hidden_size":256,"intermediate_size":640,"num_hidden_layers":3,"num_attention_heads":4,
			"num_key_value_heads":1,"head_dim":64,"vocab_size":1003,"hidden_activation":"gelu_pytorch_tanh","rms_norm_eps":1e-6,
			"rope_theta":1000000.0,"rope_local_base_freq":10000.0,"tie_word_embeddings":true,"sliding_window":20,"sliding_window_pattern":2,
			"query_pre_attn_scalar":50}`,
	}
}

// needGPUs skips the test if there are fewer GPUs.
func needGPUs(t testing.TB, n int) {
	t.Helper()
	if there, err := cuda.Count(emulate.Device(t)); err != nil || there < n {
		t.Skipf("%d GPUs are needed: there are %d here, %v", n, there, err)
	}
}

// openShared opens a team and closes it after the test. It skips the test if there are GPUs, but
// too few.
func openShared(t testing.TB, config string, opt Options) *Team {
	t.Helper()
	opt.Libraries = emulate.Device(t)
	needGPUs(t, opt.device+opt.TP)
	opt.Cache = cuda.Cache{Folder: os.TempDir() + "/llmprof-test-kernels"}
	return ready(t, modelOf(t, config, opt), func(o Options) (*Team, error) {
		one, _ := opening.LoadOrStore(config, &sync.Mutex{})
		one.(*sync.Mutex).Lock()
		defer one.(*sync.Mutex).Unlock()
		return OpenTeam(o)
	})
}

// TestSharedAgainstReference runs models that GPUs share, each all-reduce in one shot and in two,
// with buffers that begin as NaN. It compares the scores of every step with the plain reference's.
// If the tokens of the ranks differ, the step fails.
func TestSharedAgainstReference(t *testing.T) {
	const always, never = 1, 1 << 30
	for name, config := range shareable() {
		few := emulate.RealGPU() != nil && os.Getenv("LLMPROF_TEST_SHAPES") != "all"
		if few && !slices.Contains([]string{"llama", "gemma3", "mixtral", "copies"}, name) {
			continue // the processor takes its time: these have every kernel that ranks differ in
		}
		for _, tp := range []int{2, 4} {
			if few && tp == 4 && name != "llama" && name != "copies" {
				continue // each has kernels of its own to compile
			}
			for i, opt := range []Options{
				{Workload: operator.Workload{Batch: 1, PromptLen: 1, GenLen: 4}, oneShot: never},
				{Workload: operator.Workload{Batch: 3, PromptLen: 37, GenLen: 3}, oneShot: always},
				{Workload: operator.Workload{Batch: 9, PromptLen: 5, GenLen: 3}, Eager: true},
				{Workload: operator.Workload{Batch: 33, PromptLen: 3, GenLen: 2}, oneShot: always},
			} {
				if name != "llama" && !slices.Contains(map[int][]int{2: {0, 1}, 4: {2}}[tp], i) && emulate.RealGPU() != nil {
					continue // the processor takes its time
				}
				t.Run(fmt.Sprintf("%s/tp%d/%d", name, tp, i), func(t *testing.T) {
					if name != "llama" || tp != 2 || i != 1 {
						emulate.Long(t)
					}
					opt.TP, opt.Seed = tp, 7
					team := openShared(t, config, opt)
					compareRun(t, team, opt, newReference(t, config, 7), opt.GenLen, func() error {
						return team.Each(func(_ int, e *Engine) error { return poison(e) })
					})
				})
			}
		}
	}
}

// Two runs of a request, with graphs and without, give tokens and scores that are equal to the bit.
func TestSharedSameAgain(t *testing.T) {
	emulate.Long(t)
	config := shareable()["llama"]
	var before string
	for _, eager := range []bool{false, true} {
		team := openShared(t, config, Options{TP: 2, Seed: 1, Workload: operator.Workload{Batch: 5, PromptLen: 35, GenLen: 6}, Eager: eager})
		testkit.Must(t, team.SetPrompts(randomPrompts(9, 5, 35, 1000)))
		for range 2 {
			first, err := team.Prefill()
			testkit.Must(t, err)
			now := fmt.Sprint(first)
			for range 5 {
				tok, err := team.Step()
				testkit.Must(t, err)
				l, err := team.Logits()
				testkit.Must(t, err)
				now += fmt.Sprint(tok, l[4])
			}
			if before != "" && now != before {
				t.Fatalf("eager %v: another answer:\n%.300s\n%.300s", eager, before, now)
			}
			before = now
		}
	}
}

// Ranks load their parts of a checkpoint with the random weights, and compute what they compute
// with random weights, to the bit.
func TestSharedCheckpoint(t *testing.T) {
	emulate.Long(t)
	for _, name := range []string{"qwen2", "llama"}[:emulate.Cases(1, 2)] { // the first has biases, and its LM head is the embedding
		config := shareable()[name]
		folder := checkpointOf(t, config, 7)
		var before string
		for _, weights := range []string{"", folder} {
			team := openShared(t, config, Options{TP: 2, Seed: 7, Weights: weights, Workload: operator.Workload{Batch: 2, PromptLen: 9, GenLen: 1}})
			testkit.Must(t, team.SetPrompts(randomPrompts(9, 2, 9, 1000)))
			if _, err := team.Prefill(); err != nil {
				t.Fatal(err)
			}
			l, err := team.Logits()
			testkit.Must(t, err)
			if now := fmt.Sprint(l); before != "" && now != before {
				t.Errorf("%s: other scores:\n%.300s\n%.300s", name, before, now)
			} else {
				before = now
			}
		}
	}
}

// checkpointOf writes the random weights of a seed as a checkpoint.
func checkpointOf(t *testing.T, config string, seed uint64) string {
	t.Helper()
	_, s := shapeOf(t, config)
	header, data := map[string]any{}, []byte(nil)
	for _, ts := range layout(&s).tensors {
		begin := len(data)
		for i := range ts.elements() {
			v := float32(s.normStart())
			if !ts.norm {
				v = float32(randomWeight(safetensors.BFloat16, tensorSeed(seed, ts.name), uint64(i), randomScale))
			}
			data = binary.LittleEndian.AppendUint16(data, safetensors.Round(v))
		}
		header[ts.name] = map[string]any{"dtype": "BF16", "shape": ts.shape, "data_offsets": []int{begin, len(data)}}
	}
	text, err := json.Marshal(header)
	testkit.Must(t, err)
	folder := t.TempDir()
	file := append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), data...)
	testkit.Must(t, os.WriteFile(filepath.Join(folder, "model.safetensors"), file, 0o644))
	return folder
}

// The bytes of weights and cache of all ranks are those of the estimate for one GPU, times the
// ranks. A vocabulary that does not divide is padded as in the estimate.
func TestSharedSizesAreTheEstimates(t *testing.T) {
	for _, name := range []string{"llama3.1-8b", "qwen2.5-32b", "qwen3-32b", "gemma2-27b", "mixtral-8x7b", "qwen2.5-3b", "gemma-2b",
		"qwen3-30b-a3b", "qwen3-235b-a22b"} {
		table, err := models.Load(llmprof.ModelsJSON)
		testkit.Must(t, err)
		m, err := table.Model(name)
		testkit.Must(t, err)
		config, err := table.Config(name)
		testkit.Must(t, err)
		for _, tp := range []int{1, 2, 4, 8} {
			opt := Options{Model: m, Config: config, TP: tp, Workload: operator.Workload{Batch: 3, PromptLen: 1000, GenLen: 25}}
			if name == "qwen3-235b-a22b" && tp < 8 { // a key head has 16 query heads
				if err := Check(&opt); err == nil || !strings.Contains(err.Error(), "query heads share a key head on a GPU") {
					t.Errorf("tp %d: %v", tp, err)
				}
				continue
			}
			var weights, cache float64
			for rank := range tp {
				e, err := newEngine(opt, rank)
				testkit.Must(t, err)
				weights += 2 * float64(paramsOf(e.w))
				cache += float64(measureBuffers(&e.shape, &e.opt, 132).kv)
			}
			want := theory(t, &opt)
			if d := weights / (float64(tp) * float64(want.Weights)); d < 0.9999 || d > 1.0001 {
				t.Errorf("%s, tp %d: %.0f bytes of weights, in theory %d times %.0f", name, tp, weights, tp, float64(want.Weights))
			}
			if got, want := cache*1025/1024, float64(tp)*float64(want.KV); got/want < 0.999 || got/want > 1.001 { // the last token's is not kept
				t.Errorf("%s, tp %d: %.0f bytes of cache, in theory %.0f", name, tp, got, want)
			}
		}
	}
}

// If a rank does not arrive, the ranks that wait for it return an error that names it. If a rank
// fails, its reason is returned. Nothing hangs.
func TestSharedRankFails(t *testing.T) {
	emulate.Long(t)
	// What failed a GPU cannot be used after.
	for device, opt := range map[int]Options{6: {Workload: operator.Workload{Batch: 1}},
		4: asHopper(Options{Workload: operator.Workload{Batch: 17}})} {
		opt.TP, opt.device, opt.PromptLen, opt.GenLen, opt.peerTimeout = 2, device, 5, 4, 200*time.Millisecond
		t.Run(fmt.Sprint(opt.Batch), func(t *testing.T) {
			if opt.Batch > 1 {
				emulate.Long(t)
			}
			rankFails(t, opt)
		})
	}
}

func rankFails(t *testing.T, opt Options) {
	team := openShared(t, shareable()["llama"], opt)
	testkit.Must(t, team.SetPrompts(randomPrompts(9, opt.Batch, 5, 1000)))
	if _, err := team.Prefill(); err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	err := team.Each(func(rank int, e *Engine) error {
		if rank == 1 {
			return gone
		}
		_, err := e.Step()
		return err
	})
	var failed *cuda.Error
	if !errors.Is(err, gone) || !errors.As(err, &failed) {
		t.Fatalf("%v: want both ranks' errors", err)
	}
	for _, want := range []string{"rank 0 waited for rank 1 for more than 200ms", "rank 1: gone"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
	if err := team.Close(); err == nil || !errors.As(err, &failed) {
		t.Errorf("a GPU that failed was closed as if it had not: %v", err)
	}
}

// A split that is impossible is refused before a GPU is used, with the splits that are possible.
func TestIndivisible(t *testing.T) {
	for _, c := range []struct {
		tp   int
		want string
	}{
		{3, "tp 3 does not divide the 28 query heads"}, {7, "tp 7 neither divides the 4 key heads nor is a multiple of them"},
		{9, "tp 9: 1 to 8 GPUs of one host can share a model"}, {-1, "tp -1: 1 to 8 GPUs of one host can share a model"},
	} {
		m, err := models.Read("test", []byte(shareable()["qwen2"]))
		testkit.Must(t, err)
		err = Check(&Options{Model: m, Config: []byte(shareable()["qwen2"]), TP: c.tp, Workload: operator.Workload{
			Batch: 1, PromptLen: 1, GenLen: 1}})
		var no *UnsupportedError
		if !errors.As(err, &no) || !strings.Contains(err.Error(), c.want+"; it can be shared by 1, 2, 4") {
			t.Errorf("tp %d: %v, want %q", c.tp, err, c.want)
		}
	}
}

// A single engine refuses a part of a model, because it would wait for the other ranks forever.
func TestOpenAlone(t *testing.T) {
	m, err := models.Read("test", []byte(shareable()["llama"]))
	testkit.Must(t, err)
	var no *UnsupportedError
	if _, err := Open(Options{Model: m, Config: []byte(shareable()["llama"]), TP: 2, Workload: operator.Workload{
		Batch: 1, PromptLen: 1, GenLen: 1}}); !errors.As(err, &no) {
		t.Errorf("%v", err)
	}
}

// Every element of every tensor is on exactly the right ranks: norms and routers are on all, keys
// and values on those whose query heads share them, and everything else on one.
func TestShards(t *testing.T) {
	for name, config := range shareable() {
		m, whole := shapeOf(t, config)
		for _, ranks := range []int{4, 2, 1}[:emulate.Cases(1, 3)] {
			var params int64
			counts := map[string][]int{}
			for rank := range ranks {
				s, err := whole.divide("test", rank, ranks)
				testkit.Must(t, err)
				w := layout(&s)
				params += paramsOf(w)
				for i := range w.tensors {
					countElements(&w.tensors[i], counts)
				}
			}
			more, copies := int64(0), max(1, ranks/whole.kvHeads)
			for _, ts := range layout(&whole).tensors {
				want := 1
				if ts.norm || strings.HasSuffix(ts.name, ".mlp.gate.weight") || strings.HasSuffix(ts.name, "moe.gate.weight") {
					want = ranks
				}
				if strings.Contains(ts.name, "k_proj") || strings.Contains(ts.name, "v_proj") {
					want = copies
				}
				more += int64((want - 1) * ts.elements())
				elements := ts.elements()
				for i, n := range counts[ts.name] {
					if n != want || len(counts[ts.name]) != elements {
						t.Fatalf("%s, tp %d: element %d of %d of %s is on %d ranks, want %d", name, ranks, i, elements, ts.name, n, want)
					}
				}
				delete(counts, ts.name)
			}
			if len(counts) > 0 {
				t.Errorf("%s, tp %d: tensors that the model has not: %v", name, ranks, counts)
			}
			if want := m.Params() + more; params != want {
				t.Errorf("%s, tp %d: all ranks have %d parameters, want %d", name, ranks, params, want)
			}
		}
	}
}

// countElements counts the elements of a rank's part.
func countElements(t *tensor, counts map[string][]int) {
	if counts[t.name] == nil {
		n := 1
		for _, d := range t.shape {
			n *= d
		}
		counts[t.name] = make([]int, n)
	}
	all := counts[t.name]
	for r := range t.rows.N {
		row := all[(t.rows.Begin+r)*t.width()+t.cols.Begin:]
		for c := range t.cols.N {
			row[c]++
		}
	}
}

// Ranks compare their tokens to the last one.
func TestAgree(t *testing.T) {
	if got, err := Agree([][]int32{{1, 2}, {1, 2}}); err != nil || !cmp.Equal(got, []int32{1, 2}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, all := range [][][]int32{{{1, 2}, {1, 3}}, {{1, 2}, {1}}, {{1}, {1, 2}}} {
		if _, err := Agree(all); err == nil {
			t.Errorf("%v agree", all)
		}
	}
}

// At the threshold an all-reduce reads as many bytes in one shot as in two.
func TestOneShotBytes(t *testing.T) {
	for _, c := range []struct{ ranks, want int }{{2, maxBytes}, {4, 600000}, {8, 171428}} {
		got := oneShotBytes(c.ranks)
		if got != c.want {
			t.Errorf("%d ranks: %d bytes, want %d", c.ranks, got, c.want)
		}
		n, m := float64(c.ranks), float64(got)
		one, two := (n-1)*m/450e9, 2*(n-1)/n*m/450e9+2e-6
		if c.ranks > 2 && math.Abs(one/two-1) > 1e-4 {
			t.Errorf("%d ranks: one shot takes %v s, two %v s", c.ranks, one, two)
		}
	}
}

// GEMMs fuse their all-reduce if the estimate says so.
func TestFusesAllReduceAsEstimated(t *testing.T) {
	for _, ranks := range []int{2, 4, 8} {
		for batch := 1; batch <= 65; batch++ {
			s := shape{ranks: ranks, heads: 8, kvHeads: 2, headDim: 128, hidden: 4096, inner: 1792, tokens: 16032}
			o := Options{Workload: operator.Workload{Batch: batch}, TP: ranks, wgmma: wgmmaGEMMs(&s, batch, 132)}
			want := batch <= maxWgmmaBatch && engine.FusesAllReduce(ranks, unit.Bytes(2*batch*s.hidden), batch > engine.SkinnyRows)
			if got := o.fusesAllReduce(&s); got != want {
				t.Errorf("%d ranks, batch %d: fused %v, estimated %v", ranks, batch, got, want)
			}
		}
	}
}

// The GPUs of a possible split exist, and are no more than the driver lists.
func TestTogether(t *testing.T) {
	folder := emulate.Device(t)
	n, err := cuda.Count(folder)
	testkit.Must(t, err)
	if err := cuda.Together(folder, 1); err != nil {
		t.Errorf("one GPU: %v", err)
	}
	if err := cuda.Together(folder, n); err != nil && emulate.RealGPU() != nil {
		t.Errorf("%d emulated GPUs: %v", n, err)
	}
	if err := cuda.Together(folder, n+1); err == nil || !strings.Contains(err.Error(), "the driver shows") {
		t.Errorf("a GPU more than there are: %v", err)
	}
}

// All ranks load the kernels that one rank compiles for all. Otherwise each would compile them
// again at the same time.
func TestTeamCompilesWhatItLoads(t *testing.T) {
	q := Query{Kind: "all_reduce", Shape: map[string]int{"bytes": 8 << 10}, TP: 4}
	o, _, err := allReduceOptions(&q)
	testkit.Must(t, err)
	var mutex sync.Mutex
	var all []string
	team, err := openTeam(o, func(int) (*cuda.Device, error) { return cuda.NewStandIn().Device, nil }, func(e *Engine) error {
		mutex.Lock()
		all = append(all, strings.Join(defines(&e.shape, e.opt.rings()), " "))
		mutex.Unlock()
		return e.compileNothing()
	})
	testkit.Must(t, err)
	defer team.Close()
	if slices.Sort(all); len(all) != 5 || all[0] != all[4] {
		t.Errorf("one rank and then four compile for\n%s", strings.Join(all, "\n"))
	}
}
