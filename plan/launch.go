package plan

import (
	"fmt"
	"strconv"
	"strings"

	"llmprof/analytic/engine"
	"llmprof/internal/printable"
	"llmprof/models"
	"llmprof/unit"
)

// A Launch is how an engine is started as a row says.
type Launch struct {
	Engine string   `json:"engine"`
	Text   string   `json:"text"`  // a command line, or a file
	Args   []string `json:"-"`     // words of the command line; nil for a file
	Notes  []string `json:"notes"` // what the engine does otherwise than the row has it
}

// Launches are the commands that start one machine's part of a deployment with the engines
// that people run and that run on its GPU, and a Kubernetes manifest for vLLM. Checkpoint is the name or
// the folder of the weights.
func Launches(r *Row, q *Request, checkpoint string) (all []Launch) {
	checkpoint = printable.Operand(checkpoint)
	for _, l := range []Launch{vllm(r, q, checkpoint), sglang(r, q, checkpoint), tensorRT(r, q, checkpoint), llamaCPP(r, q, checkpoint)} {
		if engine.RunsOn(l.Engine, r.Card.GPU) {
			all = append(all, l)
		}
	}
	if len(all) > 0 && all[0].Engine == "vllm" {
		all = append(all, kubernetes(r, &all[0], checkpoint))
	}
	return all
}

// longest is the longest context that requests come to, with an eighth to spare.
func longest(q *Request, m *models.Model) int {
	n := (q.Prompt.Longest() + q.Gen.Longest()) * 9 / 8
	if most := m.MaxContext; most > 0 {
		n = min(n, most)
	}
	return n
}

// budget is the most tokens of a step that the estimate of the row has: where its engine has no scheduler, those of vLLM.
func (r *Row) budget() int {
	if r.Budget > 0 {
		return r.Budget
	}
	rules, err := engine.SchedulerOf(r.Card.Machine.Engine.Profile().Engine(), r.Card.GPU)
	if err != nil {
		rules, _ = engine.SchedulerOf("vllm", r.Card.GPU) // which is known
	}
	return rules.Budget
}

// args makes a command line.
type args struct {
	list  []string
	notes []string
}

func (a *args) add(flags ...string)       { a.list = append(a.list, flags...) }
func (a *args) number(flag string, n int) { a.add(flag, strconv.Itoa(n)) }
func (a *args) note(format string, values ...any) {
	a.notes = append(a.notes, fmt.Sprintf(format, values...))
}

// above adds a flag whose number is above 1.
func (a *args) above(flag string, n int) {
	if n > 1 {
		a.number(flag, n)
	}
}

func (a *args) launch(engine string) Launch {
	return Launch{Engine: engine, Text: commandLine(a.list), Args: a.list, Notes: a.notes}
}

// commandLine breaks a command before its flags, quoted for a shell.
func commandLine(list []string) string {
	var b strings.Builder
	for i, w := range list {
		switch {
		case i == 0:
		case strings.HasPrefix(w, "-"):
			b.WriteString(" \\\n  ")
		default:
			b.WriteByte(' ')
		}
		b.WriteString(printable.ShellWord(w))
	}
	return b.String()
}

// stored reports whether the row's weights are those of the checkpoint.
func (r *Row) stored() bool {
	return r.Formats.Weights == "" || r.Scheme == models.StoredScheme(r.Card.Model).Name
}

// quantize adds what quantizes the weights while they are loaded, or says which checkpoint
// is needed.
func (r *Row) quantize(a *args, flag string, online map[unit.Format]string) {
	if r.stored() {
		return
	}
	s, err := models.ParseScheme(r.Formats.Weights)
	if err != nil || s.Weights == s.Act && s.Weights == s.Stream() {
		return
	}
	if word, ok := online[s.Weights]; ok && s.Group == 0 && s.Act == s.Weights {
		a.add(flag, word)
		return
	}
	a.note("give a checkpoint with weights quantized as %s in place of %s", r.Formats.Weights, r.Card.Model.Name)
}

// vllm is the server of vLLM 0.25 to 0.32. Replicas are engines of one server, which routes among
// them. It splits experts over all of its replicas, by tensors or, with expert parallelism, whole ones: replicas that have
// experts of their own are servers of their own.
func vllm(r *Row, q *Request, checkpoint string) Launch {
	a := &args{list: []string{"vllm", "serve", checkpoint}}
	a.above("--tensor-parallel-size", r.Split.TP)
	a.above("--pipeline-parallel-size", r.Split.PP)
	prefill := fmt.Sprintf(" with --data-parallel-size %d", r.Prefill)
	if r.Card.Model.HasExperts() {
		prefill = ""
		a.above("--data-parallel-size", r.Split.sharing())
		if more := r.DP / r.Split.sharing(); more > 1 {
			a.note("start %d of these servers behind a router: vLLM splits the experts over all replicas of one server", more)
		}
	} else {
		a.above("--data-parallel-size", r.DP)
	}
	if r.Split.EP > 1 {
		a.add("--enable-expert-parallel")
	}
	if r.deepEP() {
		a.add("--all2all-backend", "deepep_low_latency") // whose decode steps are CUDA graphs
	}
	r.quantize(a, "--quantization", map[unit.Format]string{unit.FP8: "fp8"})
	if r.Formats.KV == unit.FP8 {
		a.add("--kv-cache-dtype", "fp8")
	}
	a.number("--max-model-len", longest(q, r.Card.Model))
	budget := r.budget()
	a.number("--max-num-seqs", min(r.Batch, budget)) // vLLM refuses more sequences than a step has tokens
	a.number("--max-num-batched-tokens", budget)
	if r.Drafts > 0 {
		method := `"method": "ngram", "prompt_lookup_max": 4`
		if r.Card.Model.Drafts > 0 {
			method = `"method": "mtp"`
		}
		a.add("--speculative-config", fmt.Sprintf(`{%s, "num_speculative_tokens": %d}`, method, r.Drafts))
	}
	if r.Prefill > 0 {
		a.add("--kv-transfer-config", `{"kv_connector": "NixlConnector", "kv_role": "kv_both"}`)
		a.note("this is the server that decodes: start %d more for prefill, by the same command%s, and a proxy that sends each request to "+
			"both in turn", r.Prefill, prefill)
	}
	if r.Card.GPU.Vendor == "google" {
		a.note("install vllm-tpu, which has vLLM's plugin for TPUs; constants of its kernels were measured on none")
	}
	r.nodes(a)
	return a.launch("vllm")
}

// nodes says that the deployment takes several machines.
func (r *Row) nodes(a *args) {
	if per := r.Card.GPU.GPUsPerNode; per > 0 && r.GPUs > per {
		a.note("%d GPUs take %d machines of %d: start the engine on each of them, as its manual says for several nodes, or start one server "+
			"for each replica behind a router",
			r.GPUs, (r.GPUs+per-1)/per, per)
	}
}

// sglang is the server of SGLang 0.5.14 to 0.5.23. Its data parallelism of whole replicas is that of its
// router.
func sglang(r *Row, q *Request, checkpoint string) Launch {
	a := &args{list: []string{"python3", "-m", "sglang.launch_server", "--model-path", checkpoint}}
	each := r.Split.sharing() // replicas among which a server divides its limits
	if each > 1 {             // attention by replica, experts over all of them
		a.number("--tp-size", r.Split.TP*each)
		a.number("--dp-size", each)
		a.add("--enable-dp-attention")
		if more := r.DP / each; more > 1 {
			a.note("start %d of these servers behind a router: each has the replicas that share one set of experts", more)
		}
	} else {
		a.above("--tp-size", r.Split.TP)
		a.above("--dp-size", r.DP)
	}
	a.above("--pp-size", r.Split.PP)
	a.above("--ep-size", r.Split.EP)
	if r.deepEP() {
		a.add("--moe-a2a-backend", "deepep")
	}
	if engine.MultipliesByFlashInfer(r.Card.Machine.Engine) {
		a.add("--fp8-gemm-backend", "flashinfer_trtllm")
	}
	r.quantize(a, "--quantization", map[unit.Format]string{unit.FP8: "fp8", unit.INT8: "w8a8_int8"})
	if r.Formats.KV == unit.FP8 {
		a.add("--kv-cache-dtype", "fp8_e4m3")
	}
	a.number("--context-length", longest(q, r.Card.Model))
	a.number("--max-running-requests", r.Batch*each)
	a.number("--chunked-prefill-size", r.budget()*each)
	if r.Drafts > 0 {
		if r.Card.Model.Drafts > 0 {
			a.add("--speculative-algorithm", "NEXTN", "--speculative-eagle-topk", "1")
		} else {
			a.add("--speculative-algorithm", "NGRAM")
		}
		a.number("--speculative-num-steps", r.Drafts)
		a.number("--speculative-num-draft-tokens", r.Drafts+1)
	}
	if r.Prefill > 0 {
		a.add("--disaggregation-mode", "decode")
		a.note("this is the server that decodes: start %d more for prefill, with --disaggregation-mode prefill, behind SGLang's router",
			r.Prefill)
	}
	r.nodes(a)
	return a.launch("sglang")
}

// tensorRT is the server of TensorRT-LLM 1.2 with its PyTorch backend. It has no replicas
// of its own.
func tensorRT(r *Row, q *Request, checkpoint string) Launch {
	a := &args{list: []string{"trtllm-serve", "serve", checkpoint}}
	replicas := r.DP
	if each := r.Split.sharing(); each > 1 {
		a.number("--tp_size", r.Split.TP*each)
		a.note("give enable_attention_dp: true in a file for --extra_llm_api_options, so that each of %d ranks of attention is a replica",
			r.Split.TP*each)
		if replicas /= each; r.Split.TP > 1 {
			a.note("TensorRT-LLM has no replicas of tp %d that share experts: its attention is replicated on every rank", r.Split.TP)
		}
	} else {
		a.above("--tp_size", r.Split.TP)
	}
	a.above("--pp_size", r.Split.PP)
	a.above("--ep_size", r.Split.EP)
	a.number("--max_seq_len", longest(q, r.Card.Model))
	a.number("--max_batch_size", r.Batch)
	if r.Formats.KV == unit.FP8 {
		a.note("give kv_cache_config: {dtype: fp8} in a file for --extra_llm_api_options: the command has no flag for it")
	}
	if r.Formats.Weights == "nvfp4" && r.Card.Model.HasExperts() && strings.HasPrefix(r.Card.GPU.ComputeCapability, "10.") {
		a.note("give moe_config: {backend: TRTLLM} in a file for --extra_llm_api_options: the default runs experts in NVFP4 by CUTLASS, which " +
			"takes two to four times as long for few tokens")
	}
	if a.number("--max_num_tokens", r.budget()); r.budget() < q.Prompt.Longest() {
		a.add("--enable_chunked_prefill") // else a prompt has to fit a step
	}
	if r.Drafts > 0 {
		a.note("give speculative_config with %d tokens in a file for --extra_llm_api_options", r.Drafts)
	}
	if r.Prefill > 0 {
		a.note("this is a server that decodes: start %d more for prefill, and trtllm-serve disaggregated in front of both", r.Prefill)
	}
	if !r.stored() {
		a.note("TensorRT-LLM serves weights as the checkpoint has them: give one quantized as %s", r.Formats.Weights)
	}
	if replicas > 1 {
		a.note("start %d of these servers behind a router: one has no replicas", replicas)
	}
	return a.launch("tensorrt-llm")
}

// llamaCPP is llama-server. Its slots share a context of fixed size.
func llamaCPP(r *Row, q *Request, checkpoint string) Launch {
	file := checkpoint
	if !isGGUF(file) {
		file = printable.Operand(lastPart(checkpoint)) + ".gguf"
	}
	a := &args{list: []string{"llama-server", "--model", file, "--n-gpu-layers", "999"}}
	each := r.Split.sharing() // replicas that share the experts, which are one server
	slots := r.slots(q, each)
	a.number("--parallel", slots)
	a.number("--ctx-size", longest(q, r.Card.Model)*slots)
	a.add("--flash-attn", "on")
	if r.Engine() == "llama.cpp" {
		a.number("--batch-size", r.budget())
	} else {
		a.above("--batch-size", r.Budget)
		a.above("--ubatch-size", r.Budget) // tokens that are computed at once, 512 by default
		a.note("llama.cpp is not the engine of the estimate, and is slower at large batches")
	}
	if r.Drafts > 0 {
		a.note("llama.cpp speculates with a draft model of its own: --model-draft FILE --spec-draft-n-max %d", r.Drafts)
	}
	if r.Prefill > 0 {
		a.note("llama.cpp has no replicas that only prefill: %d servers do less than the row says", r.DP+r.Prefill)
	}
	if gpus := r.Split.TP * r.Split.PP * each; gpus > 1 {
		mode := "layer"
		if r.Split.TP > 1 {
			mode = "row"
		}
		a.add("--split-mode", mode)
		a.note("llama.cpp splits over the %d GPUs of one machine that it sees, set by CUDA_VISIBLE_DEVICES", gpus)
	}
	if r.Formats.KV == unit.FP8 {
		a.add("--cache-type-k", "q8_0", "--cache-type-v", "q8_0")
		a.note("llama.cpp has no FP8 cache: Q8_0 takes a sixteenth more")
	}
	switch {
	case isGGUF(checkpoint) && r.stored():
	case models.IsMix(r.Formats.Weights):
		a.note("convert the checkpoint to GGUF first, and quantize it: llama-quantize FILE %s", strings.ToUpper(r.Formats.Weights))
	case r.stored():
		a.note("convert the checkpoint to GGUF first")
	default:
		a.note("convert the checkpoint to GGUF first, and quantize it: llama.cpp has no weights in %s", r.Scheme)
	}
	if n := r.DP / each; n > 1 {
		a.note("start %d of these servers behind a router", n)
	}
	return a.launch("llama.cpp")
}

// mostSlots is the most sequences of llama.cpp (LLAMA_MAX_SEQ of src/llama-cparams.h).
const mostSlots = 256

// slots are as many slots of llama.cpp, each with a context of its own, as the memory of some replicas has room for, up to their batch.
func (r *Row) slots(q *Request, replicas int) int {
	n := r.Batch
	if server, err := q.serverOf(r); err == nil {
		n = min(n, server.Tokens()/longest(q, r.Card.Model))
	}
	return max(min(n*replicas, mostSlots), 1)
}

func isGGUF(path string) bool { return strings.HasSuffix(strings.ToLower(path), ".gguf") }

func lastPart(path string) string { return path[strings.LastIndexAny(path, `/\`)+1:] }
