package tables

import (
	"strings"

	"llmprof/measure/calibrate"
	"llmprof/roofline"
	"llmprof/unit"
)

// A form is a kind of table, recognized by its columns.
type form struct {
	columns []string
	row     func(r *record) (calibrate.Row, bool) // false: the law of the kernel has nothing to say of it
}

// forms are the tables of aiconfigurator's database, whose latency is in milliseconds.
var forms = []form{
	{[]string{"gemm_dtype", "m", "n", "k", "latency"}, gemmRow},
	{[]string{"attn_dtype", "kv_cache_dtype", "batch_size", "isl", "step", "num_heads", "num_key_value_heads", "head_dim", "latency"},
		attentionRow},
	{[]string{"mla_dtype", "kv_cache_dtype", "batch_size", "isl", "step", "num_heads", "tp_size", "latency"}, latentRow},
	{[]string{"phase", "batch_size", "seq_len", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim", "latency"}, scanRow},
	{[]string{"moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size", "distribution",
		"latency"}, mixtureRow},
	{[]string{"allreduce_dtype", "num_gpus", "message_size", "latency"}, oneShotRow},
	{[]string{"nccl_dtype", "op_name", "num_gpus", "message_size", "latency"}, ncclRow},
}

// A quantization is what a table calls one.
type quantization struct {
	scheme roofline.Scheme
	act    unit.Format
}

// quantizations are by the names that tables have for them.
var quantizations = map[string]quantization{
	"bfloat16": {roofline.Unquantized, unit.BF16}, "float16": {roofline.Unquantized, unit.BF16},
	"fp8": {roofline.FP8, unit.FP8}, "fp8_block": {roofline.FP8Block, unit.FP8}, "fp8_static": {roofline.FP8, unit.FP8},
	"sq": {roofline.INT8, unit.INT8}, "int8_wo": {roofline.WeightINT8, unit.BF16}, "int4_wo": {roofline.WeightINT4, unit.BF16},
	"w4a16_mxfp4": {roofline.WeightMXFP4, unit.BF16}, "w4a8_mxfp4_mxfp8": {roofline.MXFP4, unit.FP8}, "nvfp4": {roofline.NVFP4, unit.NVFP4},
}

// quantized reads the formats of a product.
func quantized(r *record, name string) (quantization, bool) {
	q, ok := quantizations[r.text(name)]
	return q, ok
}

func seconds(r *record) []float64 { return []float64{r.number("latency") * 1e-3} }

// leastSide is the least inputs and outputs of a product that a model's layers have.
const leastSide = 256

// copies is the copies of a product's weights that the collector of a table multiplies by in turn. It empties no cache
// between its calls (collect_gemm.py of aiconfigurator's collectors of vLLM, SGLang and TensorRT-LLM, the last of which takes no
// more copies than exceed the L2 cache).
func copies(r *record, s roofline.Scheme) int {
	switch strings.ToLower(r.text("framework")) {
	case "vllm":
		if s == roofline.FP8Block || s == roofline.NVFP4 {
			return 1
		}
		return 6
	case "sglang":
		return 6
	case "trtllm":
		return 5
	}
	return 0
}

func gemmRow(r *record) (row calibrate.Row, ok bool) {
	q, ok := quantized(r, "gemm_dtype")
	row = calibrate.Row{
		Kind: calibrate.GEMM, DType: q.act, Scheme: q.scheme, Ranks: 1, Seconds: seconds(r),
		Shape: calibrate.Shape{M: r.size("m"), N: r.size("n"), K: r.size("k")}, Copies: copies(r, q.scheme),
	}
	row.Random = row.Copies > 0 && !strings.EqualFold(r.text("framework"), "vllm") // vLLM's weights are what the memory held before
	// get_gemm_test_cases of its collector; SGLang's rows come in random order.
	row.InTurn = strings.EqualFold(r.text("framework"), "trtllm")
	return row, ok && row.Shape.N >= leastSide && row.Shape.K >= leastSide
}

// attentionRow reads prefills, whose sequences are isl tokens long and have no past, and
// decode steps, whose sequences have step tokens.
func attentionRow(r *record) (row calibrate.Row, ok bool) {
	row = calibrate.Row{DType: unit.BF16, Ranks: 1, Seconds: seconds(r)}
	row.Shape = calibrate.Shape{Batch: r.size("batch_size"), Heads: r.size("num_heads"), KVHeads: r.size("num_key_value_heads"),
		HeadDim: r.size("head_dim")}
	if strings.HasPrefix(r.text("op_name"), "generation") {
		row.Kind, row.Shape.Context = calibrate.AttentionDecode, r.atLeast("step", 0)+1
	} else {
		row.Kind, row.Shape.Tokens = calibrate.AttentionPrefill, r.size("isl")
	}
	known := false
	if row.Scheme, known = cached(r); !known {
		return row, false
	}
	window := 0
	if r.t.has("window_size") {
		window = r.atLeast("window_size", 0)
	}
	act := r.text("attn_dtype")
	return row, (act == "bfloat16" || act == "float16") && window == 0 && row.Shape.HeadDim == 128 && row.Shape.Heads%row.Shape.KVHeads == 0
}

// cached is the scheme of attention over a cache in a table's format.
func cached(r *record) (s roofline.Scheme, ok bool) {
	switch r.text("kv_cache_dtype") {
	case "bfloat16", "float16":
		return roofline.Unquantized, true
	case "fp8", "int8":
		return roofline.FP8, true
	}
	return s, false
}

// latentRow reads DeepSeek-V3's latent attention. Tables of whole modules, whose rows name the format of their
// products, have more in them than that. SGLang's prefill by FlashAttention takes the time of 3.4 times the
// arithmetic of expanded keys and values, which is that over compressed ones.
func latentRow(r *record) (row calibrate.Row, ok bool) {
	row = calibrate.Row{DType: unit.BF16, Ranks: 1, Seconds: seconds(r)}
	row.Shape = calibrate.Shape{Batch: r.size("batch_size"), Heads: r.size("num_heads")}
	absorbed := false
	if strings.HasPrefix(r.text("op_name"), "mla_generation") {
		row.Kind, row.Shape.Context = calibrate.LatentDecode, r.atLeast("step", 0)+1
	} else {
		row.Kind, row.Shape.Tokens = calibrate.LatentPrefill, r.size("isl")
		absorbed = r.text("kernel_source") == "flash_attention"
	}
	row.Scheme, ok = cached(r)
	return row, ok && r.text("mla_dtype") == "bfloat16" && !r.t.has("gemm_type") && !absorbed
}

// mostTokens is the most tokens of a prompt's step that engines take by default. Collectors go to a hundred times as many.
const mostTokens = 16384

// scanKinds are the kinds of kernels of a gated delta net, by how the tables name them.
var scanKinds = map[string]calibrate.Kind{
	"chunk_gated_delta_rule": calibrate.ScanPrefill, "chunk_kda": calibrate.ChannelScan,
	"flashkda_fwd": calibrate.ChannelScan, "fused_recurrent_gated_delta_rule_packed": calibrate.ScanStep,
	"causal_conv1d_fn": calibrate.ConvPrefill, "causal_conv1d_update": calibrate.ConvStep,
}

// scanRow reads the kernels of gated delta nets. It leaves out steps whose states are in 16 bits, which are those of TensorRT-LLM and of
// SGLang 0.5.10, and FlashInfer's, which no engine takes by default.
func scanRow(r *record) (row calibrate.Row, ok bool) {
	row = calibrate.Row{DType: unit.BF16, Ranks: 1, Seconds: seconds(r)}
	for name, kind := range scanKinds {
		if strings.HasPrefix(r.text("kernel_source"), name) {
			row.Kind = kind
		}
	}
	row.Shape = calibrate.Shape{
		Batch: r.size("batch_size"), Tokens: r.size("seq_len"), Heads: r.size("num_v_heads"), KVHeads: r.size("num_k_heads"),
		HeadDim: r.size("head_k_dim"),
	}
	return row, row.Kind != "" && row.Shape.Batch*row.Shape.Tokens <= mostTokens && r.size("head_v_dim") == row.Shape.HeadDim
}

// ungated are the hidden and inner widths of mixtures whose experts have two matrices and a squared ReLU: Nemotron 3
// Nano, and Super and Ultra, which tables have both with the hidden size and with the latent size that experts see. The
// tables do not say how many matrices there are; with three these rows read weights up to a third faster than memory does.
var ungated = map[[2]int]bool{{2688, 1856}: true, {4096, 2688}: true, {1024, 2688}: true, {8192, 5120}: true, {2048, 5120}: true}

// grouped reports whether a collector let a router choose among groups of experts, as DeepSeek-V3's does: a token goes to the best 4 of 8
// groups. Logits that spread tokens evenly have one expert of a token in each group, and the router takes the same four groups for every
// token, so that half of the experts have none. Read as even, such rows move weights at 1.5 times the bandwidth of the memory. vLLM's and
// SGLang's collectors do so for that model since 0.24 and 0.5.14, and TensorRT-LLM's for all models that it runs by generated kernels of
// least latency (collect_moe.py).
func grouped(r *record, s *calibrate.Shape, inner int) bool {
	since := "0.24"
	switch strings.ToLower(r.text("framework")) {
	case "trtllm":
		return strings.HasSuffix(r.text("kernel_source"), "min_latency")
	case "sglang":
		since = "0.5.14"
	case "vllm":
	default:
		return false
	}
	return s.Experts == 256 && s.TopK == 8 && s.Hidden == 7168 && inner == 2048 && !older(r.text("version"), since)
}

// mixtureRow reads mixtures whose tokens go to all experts alike: how many experts have
// tokens is known of these alone. An inner width that is cut to no whole number of 64 runs by
// kernels that engines avoid. In rows of SGLang before 0.5.14 a rank of EP multiplies the pairs of all ranks: with 16384 tokens eight
// ranks take as long as one, which comes from their collector, whose pairs of other ranks go to the first expert.
func mixtureRow(r *record) (row calibrate.Row, ok bool) {
	q, ok := quantized(r, "moe_dtype")
	tp, inner := r.size("moe_tp_size"), r.size("inter_size")
	row = calibrate.Row{Kind: calibrate.Mixture, DType: q.act, Scheme: q.scheme, Ranks: 1, Seconds: seconds(r)}
	row.Shape = calibrate.Shape{
		Tokens: r.size("num_tokens"), Hidden: r.size("hidden_size"), TopK: r.size("topk"), Experts: r.size("num_experts"),
		Width: inner / tp, EP: r.size("moe_ep_size"),
	}
	s := &row.Shape
	if r.text("framework") != "" { // The collectors have one copy of the weights, and send the tokens of every call to the same experts.
		row.Copies = 1
	}
	if ungated[[2]int{s.Hidden, inner}] {
		s.Matrices = 2
	}
	padded := q.scheme == roofline.WeightMXFP4 || q.scheme == roofline.MXFP4 // to whole tiles, whatever the width
	whole := (padded || inner%(64*tp) == 0) && s.Tokens*s.TopK >= s.EP && s.EP <= 8
	all := strings.EqualFold(r.text("framework"), "sglang") && older(r.text("version"), "0.5.14") && s.EP > 1
	return row, ok && whole && !all && !grouped(r, s, inner) && r.text("distribution") == "balanced"
}

// mostOneShot is the largest message in bytes of engines' own all-reduces.
const mostOneShot = 8 << 20

// oneShotRow reads all-reduces of engines' own kernels, timed in a graph. Messages are in
// elements of 16 bits.
func oneShotRow(r *record) (row calibrate.Row, ok bool) {
	row = calibrate.Row{Kind: calibrate.OneShot, DType: unit.BF16, Ranks: r.size("num_gpus"), Seconds: seconds(r)}
	row.Shape.Bytes = 2 * r.size("message_size")
	return row, row.Ranks > 1 && row.Shape.Bytes <= mostOneShot && !strings.Contains(r.text("kernel_source"), "eager")
}

func ncclRow(r *record) (row calibrate.Row, ok bool) {
	row = calibrate.Row{Kind: calibrate.AllReduce, DType: unit.BF16, Ranks: r.size("num_gpus"), Seconds: seconds(r)}
	row.Shape.Bytes = 2 * r.size("message_size")
	return row, row.Ranks > 1 && r.text("op_name") == "all_reduce" && r.text("nccl_dtype") == "half"
}
