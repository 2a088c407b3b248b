package native

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"llmprof/analytic/operator"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/pythontest"
	"llmprof/measure/native/internal/emulate"
	"llmprof/models"
	"llmprof/models/safetensors"
)

func logitsScript(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command(pythontest.Find(t), append([]string{filepath.Join("testdata", "logits.py")}, args...)...)
	cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1")
	if emulate.RealGPU() != nil {
		cmd.Env = append(cmd.Env, "OMP_NUM_THREADS=1") // of tiny models: more wait for each other
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("logits.py: %v\n%s", err, out)
	}
}

// A checkpoint is a tiny model that transformers wrote.
type checkpoint struct {
	name, folder string
	config       []byte // as transformers wrote it
}

// checkpoints lets transformers write a checkpoint of each family, or of some.
func checkpoints(t *testing.T, some ...string) []checkpoint {
	t.Helper()
	return checkpointsOf(t, tiny(), some...)
}

// checkpointsOf lets transformers write a checkpoint of each model, or of some.
func checkpointsOf(t *testing.T, configs map[string]string, some ...string) []checkpoint {
	t.Helper()
	dir := t.TempDir()
	names := slices.Sorted(maps.Keys(configs))
	if only := os.Getenv("LLMPROF_TEST_FAMILY"); only != "" {
		if configs[only] == "" {
			t.Skipf("no model is called %s here", only)
		}
		names = []string{only}
	} else if len(some) > 0 {
		names = some
	}
	args := []string{"write", dir}
	for _, name := range names {
		path := filepath.Join(dir, name+".json")
		testkit.Must(t, os.WriteFile(path, []byte(configs[name]), 0o644))
		args = append(args, path)
	}
	logitsScript(t, args...)
	var all []checkpoint
	for i, name := range names {
		c := checkpoint{name: name, folder: filepath.Join(dir, strconv.Itoa(i))}
		var err error
		if c.config, err = os.ReadFile(filepath.Join(c.folder, "config.json")); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// A request asks for the scores of positions from First on.
type scoreRequest struct {
	Folder    string  `json:"folder"`
	Sequences [][]int `json:"sequences"`
	First     int     `json:"first"`
	How       string  `json:"how,omitempty"` // logits.py; exactly, if it does not say
	vocab     int
}

// scores has the scores of transformers: [request][sequence][position][token].
func scores(t *testing.T, requests []scoreRequest) [][][][]float64 {
	t.Helper()
	dir := t.TempDir()
	text, err := json.Marshal(requests)
	testkit.Must(t, err)
	request, answer := filepath.Join(dir, "request.json"), filepath.Join(dir, "answer")
	testkit.Must(t, os.WriteFile(request, text, 0o644))
	logitsScript(t, "score", request, answer)
	raw, err := os.ReadFile(answer)
	testkit.Must(t, err)
	out := make([][][][]float64, len(requests))
	for i, r := range requests {
		for _, s := range r.Sequences {
			var positions [][]float64
			for range len(s) - r.First {
				row := make([]float64, r.vocab)
				for k := range row {
					row[k] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw)))
					raw = raw[4:]
				}
				positions = append(positions, row)
			}
			out[i] = append(out[i], positions)
		}
	}
	if len(raw) != 0 {
		t.Fatalf("%d bytes of scores too many", len(raw))
	}
	return out
}

// fromCheckpoint returns the reference with the weights of a checkpoint.
func fromCheckpoint(t *testing.T, c checkpoint) *reference {
	t.Helper()
	m, err := models.Read(c.name, c.config)
	testkit.Must(t, err)
	s, err := readShape(m, c.config)
	testkit.Must(t, err)
	files, err := safetensors.Open(c.folder)
	testkit.Must(t, err)
	defer files.Close()
	r := &reference{s: s, model: c.folder, w: map[string][]float64{}, windows: windows(m)}
	for _, ts := range layout(&s).tensors {
		cols := 1
		if len(ts.shape) > 1 {
			cols = ts.shape[1]
		}
		part, err := files.Slice(safetensors.BFloat16, ts.name, ts.shape, safetensors.Span{N: ts.shape[0]}, safetensors.Span{N: cols})
		testkit.Must(t, err)
		raw := make([]byte, part.Bytes())
		testkit.Must(t, part.Read(raw, 0))
		for i := 0; i < len(raw); i += 2 {
			r.w[ts.name] = append(r.w[ts.name], bf16(binary.LittleEndian.Uint16(raw[i:])))
		}
	}
	r.reset()
	return r
}

// TestReferenceIsTransformers compares the plain reference, with which the kernels are compared on a
// GPU, with transformers where there is a Python: names and shapes of the tensors, the rotation's frequencies, norms,
// biases and the order of everything.
func TestReferenceIsTransformers(t *testing.T) {
	t.Parallel()
	var requests []scoreRequest
	var references []*reference
	for i, c := range checkpoints(t) {
		r := fromCheckpoint(t, c)
		references = append(references, r)
		requests = append(requests, scoreRequest{Folder: c.folder, Sequences: randomPrompts(uint64(i), 1, 70, r.s.vocab), First: 0,
			vocab: r.s.vocab})
	}
	for i, got := range scores(t, requests) {
		for pos, want := range got[0] {
			if d := relativeError(references[i].next(requests[i].Sequences[0][pos]), want); d > 1e-4 {
				t.Fatalf("%s: scores of position %d are %.2e from transformers'", requests[i].Folder, pos, d)
			}
		}
	}
}

// TestGPUIsTransformers compares the engine itself with transformers, on real
// checkpoints: short prompts and one of 4096 tokens, batches 1 and 8, 64 steps.
// Transformers is given the tokens that the engine chose, so that scores are compared and
// not choices between two tokens that tie.
func TestGPUIsTransformers(t *testing.T) {
	emulate.Device(t)
	t.Parallel()
	var families []string
	workloads := []operator.Workload{{Batch: 1, PromptLen: 1, GenLen: 64}, {Batch: 8, PromptLen: 77, GenLen: 64},
		{Batch: 1, PromptLen: 4096, GenLen: 3}}
	if emulate.RealGPU() != nil { // the processor takes its time
		workloads = []operator.Workload{{Batch: 1, PromptLen: 1, GenLen: 4}, {Batch: 2, PromptLen: 77, GenLen: 3}}
		families = []string{"gemma2", "gemma3", "mixtral", "qwen2"}
	}
	var said answers
	for _, c := range checkpoints(t, families...) {
		for _, w := range workloads {
			e := open(t, string(c.config), Options{Weights: c.folder, Workload: w})
			said.add(t, c.name, c.folder, e, w, e.shape.vocab)
			said.limits = append(said.limits, limitsOf(t, c, said.last().Sequences, w.PromptLen-1))
			testkit.Must(t, e.Close())
		}
	}
	said.compare(t)
}

// answers has the results of engines, and how far they may be from those of transformers.
type answers struct {
	requests []scoreRequest
	names    []string        // of each request's family
	logits   [][][][]float32 // [request][step][sequence]
	limits   [][][]float64   // [request][sequence][step]
}

// add lets an engine generate, and asks transformers for the scores of the same tokens.
func (a *answers) add(t *testing.T, name, folder string, e runner, w operator.Workload, vocab int) {
	t.Helper()
	sequences := randomPrompts(5, w.Batch, w.PromptLen, vocab)
	steps, chosen := generate(t, e, w.GenLen, sequences)
	for i := range sequences {
		for _, tokens := range chosen[:w.GenLen-1] {
			sequences[i] = append(sequences[i], int(tokens[i]))
		}
	}
	a.requests = append(a.requests, scoreRequest{Folder: folder, Sequences: sequences, First: w.PromptLen - 1, vocab: vocab})
	a.names, a.logits = append(a.names, name), append(a.logits, steps)
}

func (a *answers) last() *scoreRequest { return &a.requests[len(a.requests)-1] }

// A comparison is an engine's result at a step of a sequence.
type comparison struct {
	what           string // which it is
	sequence, step int
	got            []float32
	want           [][]float64 // transformers' of the same tokens, of each way
}

// compared returns the comparisons of each request, with the scores of transformers in several
// precisions.
func (a *answers) compared(t *testing.T, ways ...string) [][]comparison {
	t.Helper()
	var asked []scoreRequest
	for _, r := range a.requests {
		for _, r.How = range ways {
			asked = append(asked, r)
		}
	}
	all, out := scores(t, asked), make([][]comparison, len(a.requests))
	for i := range out {
		for s, positions := range all[i*len(ways)] {
			for step := range positions {
				one := comparison{fmt.Sprintf("%s, request %d, sequence %d, step %d", a.names[i], i, s, step), s, step, a.logits[i][step][s], nil}
				for way := range ways {
					one.want = append(one.want, all[i*len(ways)+way][s][step])
				}
				out[i] = append(out[i], one)
			}
		}
	}
	return out
}

// compare compares the answers with transformers'.
func (a *answers) compare(t *testing.T) {
	t.Helper()
	for i, all := range a.compared(t, "exact") {
		worst := 0.0
		for _, s := range all {
			d, limit := relativeError(s.got, s.want[0]), a.limits[i][s.sequence][s.step]
			worst = max(worst, d)
			if d > limit {
				t.Fatalf("%s: scores are %.2e from transformers', want %.2e", s.what, d, limit)
			}
			if limit < afterTie && !sameChoice(s.want[0], argmax(s.got), limit) {
				t.Fatalf("%s: another token", s.what)
			}
		}
		r := a.requests[i]
		t.Logf("%s: %d sequences of %d tokens: %.2e from transformers' at worst", a.names[i], len(r.Sequences), len(r.Sequences[0]), worst)
	}
}

// GPUs that share a model against transformers, also where they are more than its key
// heads, and in fp16.
func TestGPUSharedIsTransformers(t *testing.T) {
	emulate.Device(t)
	for _, c := range []struct {
		tp       int
		configs  map[string]string
		families []string
	}{
		{2, tiny(), []string{"mistral", "gemma", "qwen3"}}, {4, shareable(),
			[]string{"copies", "mistral", "gemma2", "gemma3", "qwen3_moe", "mixtral"}},
	} {
		workloads, families := []operator.Workload{{Batch: 1, PromptLen: 1, GenLen: 32}, {Batch: 8, PromptLen: 77, GenLen: 32},
			{Batch: 1, PromptLen: 1024, GenLen: 3}}, c.families
		if emulate.RealGPU() != nil { // the processor takes its time
			workloads, families = []operator.Workload{{Batch: 2, PromptLen: 17, GenLen: 3}}, families[:1]
		}
		tp := c.tp
		t.Run(fmt.Sprintf("tp%d", tp), func(t *testing.T) {
			needGPUs(t, tp)
			var said answers
			for _, c := range checkpointsOf(t, c.configs, families...) {
				for _, w := range workloads {
					opt := Options{TP: tp, Weights: c.folder, Workload: w, FP16: c.name == "mistral"}
					team := openShared(t, string(c.config), opt)
					said.add(t, c.name, c.folder, team, w, team.Lead().shape.vocab)
					said.limits = append(said.limits, limitsOf(t, c, said.last().Sequences, w.PromptLen-1))
				}
			}
			said.compare(t)
		})
	}
}

// limitsOf are how far scores may be from transformers', of positions from first on.
func limitsOf(t *testing.T, c checkpoint, sequences [][]int, first int) [][]float64 {
	t.Helper()
	r := fromCheckpoint(t, c)
	out := make([][]float64, len(sequences))
	for i, tokens := range sequences {
		r.reset()
		for pos, token := range tokens {
			if r.s.experts > 0 {
				r.advance(token)
			}
			if pos >= first {
				out[i] = append(out[i], r.limit())
			}
		}
	}
	return out
}

// generate runs a whole request and gives the scores and tokens of every step.
func generate(t *testing.T, e runner, gen int, prompts [][]int) (logits [][][]float32, chosen [][]int32) {
	t.Helper()
	testkit.Must(t, e.SetPrompts(prompts))
	step := e.Prefill
	for range gen {
		tokens, err := step()
		testkit.Must(t, err)
		scores, err := e.Logits()
		testkit.Must(t, err)
		for i, token := range tokens {
			if best := argmax(scores[i]); best != token {
				t.Fatalf("sequence %d: token %d was chosen, %d has the best score", i, token, best)
			}
		}
		logits, chosen, step = append(logits, scores), append(chosen, tokens), e.Step
	}
	if _, err := e.Step(); err == nil {
		t.Error("a step beyond the cache is no error")
	}
	return logits, chosen
}

// argmax is the first of the best.
func argmax(scores []float32) int32 {
	best := 0
	for i, v := range scores {
		if v > scores[best] {
			best = i
		}
	}
	return int32(best)
}
