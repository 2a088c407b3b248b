package plan

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"llmprof/serving"
	"llmprof/unit"
)

// launched are launch commands of a few kinds of rows.
func launched(t *testing.T) (all [][]Launch) {
	t.Helper()
	for _, x := range []struct {
		model, gpu string
		row        Row
	}{
		{"qwen3-32b", "h100", Row{Formats: Formats{"fp8", unit.FP8}, Split: Split{2, 1, 1, 0}, DP: 3, Batch: 64, GPUs: 6}},
		{"llama3.1-8b", "a100", Row{Formats: Formats{"", unit.BF16}, Split: Split{1, 2, 1, 0}, DP: 1, Batch: 8, GPUs: 2}},
		{"llama3.1-8b", "l4", Row{Formats: Formats{"w4a16-g128", unit.BF16}, Split: Split{1, 1, 1, 0}, DP: 1, Batch: 1, GPUs: 1}},
		{"deepseek-v3", "h200", Row{Formats: Formats{"", unit.FP8}, Split: Split{8, 1, 16, 0}, DP: 2, Batch: 256, GPUs: 16}},
		{"qwen3-30b-a3b", "mi300x", Row{Formats: Formats{"", unit.BF16}, Split: Split{4, 1, 4, 0}, DP: 1, Batch: 32, GPUs: 4}},
		{"deepseek-v3", "h200", Row{Formats: Formats{"", unit.FP8}, Split: Split{8, 1, 1, 0}, DP: 2, Prefill: 1, Budget: 4096, Drafts: 1,
			Batch: 256, GPUs: 24}},
		{"llama3.1-8b", "h100", Row{Formats: Formats{"", unit.BF16}, Split: Split{1, 1, 1, 0}, DP: 1, Drafts: 3, Batch: 256, GPUs: 1}},
		{"qwen3-30b-a3b", "h100", Row{Formats: Formats{"", unit.BF16}, Split: Split{1, 1, 1, 4}, DP: 8, Batch: 32, GPUs: 8}},
	} {
		q := request(t, x.model, x.gpu)
		x.row.Card = &q.Cards[0]
		_, s, err := x.row.Formats.of(x.row.Card.Model, x.row.Card.GPU)
		if err != nil {
			t.Fatal(err)
		}
		x.row.Scheme = s.Name
		all = append(all, Launches(&x.row, q, "org/"+x.model))
	}
	return all
}

// parse is a Python program that parses the command lines of standard input by vLLM's own
// parser, and writes what it made of them.
const parse = `
import json, sys
from vllm.utils.argparse_utils import FlexibleArgumentParser
try:
    from vllm.entrypoints.openai.cli_args import make_arg_parser  # 0.25.1, the release of the profile
except ImportError:
    from vllm.entrypoints.launchers.cli_args import make_arg_parser  # 0.32
out = []
for words in json.load(sys.stdin):
    parser = make_arg_parser(FlexibleArgumentParser(exit_on_error=False))
    a = parser.parse_args(words)
    out.append([a.model_tag, a.tensor_parallel_size, a.pipeline_parallel_size, a.data_parallel_size, bool(a.enable_expert_parallel),
                a.quantization, a.kv_cache_dtype, a.max_model_len, a.max_num_seqs, a.max_num_batched_tokens,
                (a.speculative_config or {}).get("method"), (a.speculative_config or {}).get("num_speculative_tokens"),
                a.kv_transfer_config and a.kv_transfer_config.kv_connector])
print("\n" + json.dumps(out))
`

// vLLM itself parses its launch commands.
func TestVLLMParses(t *testing.T) {
	vllm := os.Getenv("LLMPROF_VLLM")
	if vllm == "" {
		t.Skip("no Python with vLLM: name one in LLMPROF_VLLM")
	}
	var words [][]string
	for _, l := range launched(t) {
		words = append(words, l[0].Args[2:])
	}
	want := `[["org/qwen3-32b", 2, 1, 3, false, "fp8", "fp8", 1440, 64, 8192, null, null, null], ["org/llama3.1-8b", 1, 2, 1, false, null, ` +
		`"auto", 1440, 8, 2048, null, null, null], ` +
		`["org/llama3.1-8b", 1, 1, 1, false, null, "auto", 1440, 1, 2048, null, null, null], ["org/deepseek-v3", 8, 1, 2, true, null, "fp8", ` +
		`1440, 256, 8192, null, null, null], ` +
		`["org/qwen3-30b-a3b", 4, 1, 1, true, null, "auto", 1440, 32, 8192, null, null, null], ["org/deepseek-v3", 8, 1, 1, false, null, "fp8",` +
		` 1440, 256, 4096, "mtp", 1, "NixlConnector"], ` +
		`["org/llama3.1-8b", 1, 1, 1, false, null, "auto", 1440, 256, 8192, "ngram", 3, null], ["org/qwen3-30b-a3b", 1, 1, 4, false, null, ` +
		`"auto", 1440, 32, 8192, null, null, null]]`
	if got := parsed(t, vllm, words); got != want {
		t.Errorf("vLLM understands\n%s\nwant\n%s", got, want)
	}
}

// parsed is what vLLM's own parser makes of the words of command lines.
func parsed(t *testing.T, vllm string, words [][]string) string {
	t.Helper()
	in, err := json.Marshal(words)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), vllm, "-c", parse)
	cmd.Stdin = strings.NewReader(string(in))
	cmd.Env = append(os.Environ(), "VLLM_LOGGING_LEVEL=ERROR", "HF_HUB_OFFLINE=1", "OMP_NUM_THREADS=1")
	var failed strings.Builder
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, failed.String())
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// serverFlags are the flags, of those that launch commands may have, that the servers take: of
// SGLang the server arguments of its wheels 0.5.14 and 0.5.23, of TensorRT-LLM those of
// tensorrt_llm/commands/serve.py at commit 00209af149e7774406881a37283dce303571eb11 (1.2), of llama.cpp
// those of tools/server/README.md at commit 00dc8057ab28c9cb4c79a6dd6dfce07fe779f63b.
var serverFlags = map[string][]string{
	"sglang": {
		"--model-path", "--tp-size", "--dp-size", "--enable-dp-attention", "--pp-size", "--ep-size", "--quantization", "--kv-cache-dtype",
		"--context-length",
		"--max-running-requests", "--chunked-prefill-size", "--speculative-algorithm", "--speculative-eagle-topk", "--speculative-num-steps",
		"--speculative-num-draft-tokens", "--disaggregation-mode",
	},
	"tensorrt-llm": {"--tp_size", "--pp_size", "--ep_size", "--max_seq_len", "--max_batch_size", "--max_num_tokens", "--extra_llm_api_options",
		"--enable_chunked_prefill"},
	"llama.cpp": {
		"--model", "--n-gpu-layers", "--parallel", "--ctx-size", "--flash-attn", "--batch-size", "--ubatch-size", "--split-mode",
		"--cache-type-k", "--cache-type-v",
	},
}

// Replicas that cut the experts between them are one server of every engine that has such a layout.
func TestLaunchOfCutExperts(t *testing.T) {
	want := map[string]string{
		"vllm":         "--data-parallel-size 4",
		"sglang":       "--tp-size 4 --dp-size 4 --enable-dp-attention",
		"tensorrt-llm": "--tp_size 4",
	}
	for _, l := range launched(t)[7] {
		text := strings.Join(l.Args, " ")
		if w := want[l.Engine]; w != "" && (!strings.Contains(text, w+" ") || strings.Contains(text, "expert") ||
			strings.Contains(text, "ep-size") || strings.Contains(text, "ep_size")) {
			t.Errorf("%s: %s\nwant %q, and no expert parallelism", l.Engine, text, w)
		}
		if notes := strings.Join(l.Notes, "\n"); want[l.Engine] != "" && !strings.Contains(notes, "start 2 of these servers") {
			t.Errorf("%s: notes %q: 8 replicas are two servers of 4", l.Engine, notes)
		}
	}
}

// Experts in NVFP4 on Blackwell are predicted by generated kernels, for which TensorRT-LLM has to be told.
func TestLaunchBackendOfExperts(t *testing.T) {
	for _, x := range []struct {
		model, gpu, weights string
		want                bool
	}{{"qwen3-30b-a3b", "b200", "nvfp4", true}, {"qwen3-30b-a3b", "b200", "fp8-block", false}, {"qwen3-8b", "b200", "nvfp4", false},
		{"qwen3-30b-a3b", "rtx-pro-6000-server-96gb", "nvfp4", false}} {
		q := requestOn(t, "tensorrt-llm", x.model, x.gpu)
		r := Row{Card: &q.Cards[0], Formats: Formats{Weights: x.weights, KV: unit.BF16}, Split: Split{1, 1, 1, 0}, DP: 1, Batch: 8, GPUs: 1}
		for _, l := range Launches(&r, q, "org/model") {
			if l.Engine == "tensorrt-llm" && strings.Contains(strings.Join(l.Notes, "\n"), "backend: TRTLLM") != x.want {
				t.Errorf("%s in %s on %s: notes %q", x.model, x.weights, x.gpu, l.Notes)
			}
		}
	}
}

// Servers that are predicted with DeepEP are started with it, and no others.
func TestLaunchDeepEP(t *testing.T) {
	for by, want := range map[string]bool{"vllm": false, "vllm+deepep": true, "sglang+deepep": true} {
		q := requestOn(t, by, "qwen3-30b-a3b", "h100")
		r := Row{Card: &q.Cards[0], Formats: Formats{KV: unit.BF16}, Split: Split{1, 1, 4, 0}, DP: 4, Batch: 8, GPUs: 4}
		for i, flags := range []string{"--all2all-backend deepep_low_latency", "--moe-a2a-backend deepep"} {
			if l := Launches(&r, q, "org/model")[i]; strings.Contains(strings.Join(l.Args, " "), flags) != want {
				t.Errorf("%s as predicted for %s is started by %q", l.Engine, by, l.Args)
			}
		}
	}
}

// SGLang is started with FlashInfer's dense products where it is predicted with them.
func TestLaunchFlashInferGEMM(t *testing.T) {
	for by, want := range map[string]bool{"sglang": false, "sglang+flashinfer-gemm": true} {
		q := requestOn(t, by, "deepseek-r1", "b200")
		r := Row{Card: &q.Cards[0], Formats: Formats{KV: unit.FP8}, Split: Split{8, 1, 1, 0}, DP: 1, Batch: 8, GPUs: 8}
		if l := Launches(&r, q, "org/model")[1]; strings.Contains(strings.Join(l.Args, " "), "--fp8-gemm-backend flashinfer_trtllm") != want {
			t.Errorf("%s as predicted for %s is started by %q", l.Engine, by, l.Args)
		}
	}
}

// The other engines have the flags of their launch commands.
func TestFlags(t *testing.T) {
	for i, all := range launched(t) {
		for _, l := range all {
			known, ok := serverFlags[l.Engine]
			for _, w := range l.Args {
				if ok && strings.HasPrefix(w, "--") && !slices.Contains(known, w) {
					t.Errorf("row %d: %s has no flag %s", i, l.Engine, w)
				}
			}
		}
	}
}

// A wheel of SGLang, unpacked to the folder that LLMPROF_SGLANG names, has a server argument for
// each flag.
func TestSGLangFlags(t *testing.T) {
	folder := os.Getenv("LLMPROF_SGLANG")
	if folder == "" {
		t.Skip("LLMPROF_SGLANG does not name the folder of an unpacked wheel of SGLang")
	}
	var source strings.Builder
	for _, pattern := range []string{"server_args.py", "arg_groups/fields/*.py"} {
		files, _ := filepath.Glob(filepath.Join(folder, "sglang/srt", pattern))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(text)
		}
	}
	for _, flag := range serverFlags["sglang"] {
		field := strings.ReplaceAll(strings.TrimPrefix(flag, "--"), "-", "_")
		if !strings.Contains(source.String(), "\n    "+field+": A[") {
			t.Errorf("there is no server argument %s", field)
		}
	}
}

// Engines that do not run on the GPU are left out.
func TestLaunchesByVendor(t *testing.T) {
	for gpu, want := range map[string]string{
		"tpu-v5e": "vllm kubernetes kserve", "mi300x": "vllm sglang llama.cpp kubernetes kserve", "v100": "llama.cpp",
		"h100": "vllm sglang tensorrt-llm llama.cpp kubernetes dynamo kserve",
	} {
		q := request(t, "llama3.2-3b", gpu) // which fits on each
		r := Row{Card: &q.Cards[0], Formats: Formats{KV: unit.BF16}, Split: Split{1, 1, 1, 0}, DP: 1, Batch: 8, GPUs: 1}
		var got []string
		for _, l := range Launches(&r, q, "org/model") {
			if got = append(got, l.Engine); gpu == "tpu-v5e" && l.Engine == "kubernetes" && !strings.Contains(l.Text, "google.com/tpu") {
				t.Errorf("%s: the manifest asks for\n%s", gpu, l.Text)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %s, want %s", gpu, got, want)
		}
	}
}

// Engines are told the limits that the estimate has, as each divides them among its replicas.
func TestLaunchLimits(t *testing.T) {
	all := launched(t)
	for _, x := range []struct {
		row, engine int
		want        string
	}{
		{0, 0, "--max-num-seqs 64 --max-num-batched-tokens 8192"}, {1, 0, "--max-num-seqs 8 --max-num-batched-tokens 2048"},
		{5, 0, "--max-num-batched-tokens 4096"},
		{0, 1, "--max-running-requests 64 --chunked-prefill-size 8192"},   // of each of 3 replicas
		{3, 1, "--max-running-requests 512 --chunked-prefill-size 16384"}, // divided among 2 ranks of attention
		{0, 2, "--max_batch_size 64 --max_num_tokens 8192"}, {0, 3, "--parallel 64 --ctx-size 92160"}, {6, 3, "--parallel 256 --ctx-size 368640"},
	} {
		if got := strings.Join(all[x.row][x.engine].Args, " "); !strings.Contains(got, x.want) {
			t.Errorf("%s of row %d is started by %s, want %s", all[x.row][x.engine].Engine, x.row, got, x.want)
		}
	}
	q := request(t, "llama3.1-8b", "l4")
	q.Prompt = serving.Lengths{Kind: "uniform", Low: 100, High: 9000}
	r := Row{Card: &q.Cards[0], Formats: Formats{KV: unit.BF16}, Split: Split{1, 1, 1, 0}, DP: 1, Batch: 4096, GPUs: 1, Scheme: "w16a16"}
	launches := Launches(&r, q, "org/model")
	for i, want := range []string{"--max-model-len 10413 --max-num-seqs 2048 --max-num-batched-tokens 2048", "--max-running-requests 4096",
		"--enable_chunked_prefill", "--parallel 5 --ctx-size 52065"} {
		if got := strings.Join(launches[i].Args, " "); !strings.Contains(got, want) {
			t.Errorf("%s is started by %s, want %s", launches[i].Engine, got, want)
		}
	}
}

// Prompts longer than a step go in chunks, which TensorRT-LLM has to be told.
func TestLaunchChunks(t *testing.T) {
	q := request(t, "llama3.1-8b", "h100")
	r := Row{Card: &q.Cards[0], Formats: Formats{KV: unit.BF16}, Split: Split{1, 1, 1, 0}, DP: 1, Batch: 8, GPUs: 1, Budget: 512}
	all := Launches(&r, q, "org/model")
	for i, want := range map[int]string{2: "--enable_chunked_prefill", 3: "--ubatch-size"} {
		if !slices.Contains(all[i].Args, want) {
			t.Errorf("%s is started by %q, want %s", all[i].Engine, all[i].Args, want)
		}
	}
}

// What an engine cannot do as the row has it is said.
func TestLaunchNotes(t *testing.T) {
	all := launched(t)
	for _, x := range []struct {
		row, engine int
		want        string
	}{
		{0, 2, "start 3 of these servers"}, {2, 0, "checkpoint with weights quantized as w4a16-g128"}, {3, 0, "16 GPUs take 2 machines of 8"},
		{3, 2, "enable_attention_dp"}, {3, 4, "LeaderWorkerSet"}, {0, 3, "no FP8 cache"},
		{5, 0, "start 1 more for prefill"}, {5, 0, "start 2 of these servers"}, {5, 4, "a proxy in front of both"}, {5, 2, "speculative_config"},
		{0, 2, "kv_cache_config: {dtype: fp8}"},
	} {
		if got := strings.Join(all[x.row][x.engine].Notes, "\n"); !strings.Contains(got, x.want) {
			t.Errorf("%s of row %d says %q, want %q", all[x.row][x.engine].Engine, x.row, got, x.want)
		}
	}
}

// Where weights in a format need a checkpoint of their own, one that is published is named.
func TestLaunchNamesQuantizedCheckpoints(t *testing.T) {
	q := request(t, "qwen3.6-35b-a3b", "b200")
	r := Row{Card: &q.Cards[0], Formats: Formats{"nvfp4", unit.BF16}, Split: Split{1, 1, 1, 0}, DP: 1, Batch: 8, GPUs: 1}
	all := Launches(&r, q, "org/model")
	if got := strings.Join(all[0].Notes, "\n"); !strings.Contains(got, "in place of qwen3.6-35b-a3b, as nvidia/Qwen3.6-35B-A3B-NVFP4") {
		t.Errorf("%q", got)
	}
}

// A checkpoint is no option of what it is given to, whatever its name, and a shell reads the words as they are.
func TestLaunchesNameCheckpoints(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell")
	}
	q := request(t, "llama3.1-8b", "h100")
	row := Row{Card: &q.Cards[0], Formats: Formats{"", unit.BF16}, Split: Split{1, 1, 1, 0}, DP: 1, Batch: 1, GPUs: 1}
	for checkpoint, want := range map[string][2]string{
		"-q": {"./-q", "./-q.gguf"}, "--help": {"./--help", "./--help.gguf"}, "a b/-n": {"a b/-n", "./-n.gguf"},
		"./-x.gguf": {"./-x.gguf", "./-x.gguf"},
		"-x.gguf":   {"./-x.gguf", "./-x.gguf"}, "it's $(x); rm\n`x`": {"it's $(x); rm\n`x`", "it's $(x); rm\n`x`.gguf"},
		"org/name": {"org/name", "name.gguf"}, "d/x.gguf": {"d/x.gguf", "d/x.gguf"},
	} {
		for _, l := range Launches(&row, q, checkpoint) {
			if l.Args == nil {
				continue
			}
			word := want[0]
			if l.Engine == "llama.cpp" {
				word = want[1]
			}
			if !slices.Contains(l.Args, word) || slices.Contains(l.Args, checkpoint) && checkpoint != word {
				t.Errorf("%s of %q: %q, want the word %q", l.Engine, checkpoint, l.Args, word)
			}
			out, err := exec.Command(shell, "-c", `printf '%s\0' `+l.Text).Output()
			if words := strings.Split(string(out), "\x00"); err != nil || !slices.Equal(words[:len(words)-1], l.Args) {
				t.Errorf("a shell reads %q of %s, want %q", out, l.Text, l.Args)
			}
		}
	}
	row.Card.Request.Model = "-x.json"
	if name := row.Same(q).Model; name != "./-x.json" {
		t.Errorf("the estimate of it is %q", name)
	}
}
