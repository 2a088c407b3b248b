package traced

import (
	"slices"
	"strings"
)

// Roles of kernels that are no operator of an estimate.
const (
	inputs = "inputs of the next step"
	copies = "copies"
	fills  = "fills"
	gather = "last positions" // the last position of each sequence, which the LM head runs on
)

// A walker gives the kernels of a step their operators, in order. A GEMM has no name of its
// own: what is done ahead of it and after it tells which it is.
type walker struct {
	kernels []kernel
	names   names
	at      int
	layer   stage
	done    bool // the LM head has run
	current string
	expert  int // grouped GEMMs of the layer so far
}

// A stage is where in a layer the kernel is.
type stage uint8

const (
	ahead  stage = iota // kernels ahead of attention
	behind              // kernels between attention and the norm
	inside              // the feed-forward, until its non-linearity
	after               // the non-linearity
)

func assign(s *step, n names) {
	w := &walker{kernels: s.kernels, names: n}
	for w.at = range w.kernels {
		w.kernels[w.at].role = w.role()
	}
}

// role is the operator of the kernel at hand.
func (w *walker) role() string {
	k := &w.kernels[w.at]
	if w.done {
		return w.tail(k)
	}
	switch k.class {
	case embedding:
		return w.names.pick("embedding")
	case gemm, splitK, quantize:
		return w.dense(k)
	case norm:
		return w.norm()
	case rotary:
		return w.names.pick("rotary", "qk_norm_rotary")
	case unnamed:
		return w.unnamed()
	case cacheWrite:
		return w.names.pick("kv_write")
	case attention, combine:
		w.layer, w.expert = behind, 0
		return w.names.pick("attention", "latent_attention")
	case filling:
		return fills
	}
	return w.feed(k)
}

// feed is role of what feed-forwards and collectives have.
func (w *walker) feed(k *kernel) string {
	switch k.class {
	case activation:
		if w.layer = after; w.expert > 0 {
			return w.names.pick("experts_activation", "activation")
		}
		return w.names.pick("activation", "shared_activation", "experts_activation")
	case routing:
		return w.names.pick("top_k")
	case experts:
		w.layer = after
		if w.expert++; w.expert == 1 {
			return w.names.pick("experts_gate_up")
		}
		return w.names.pick("experts_down")
	case allReduce:
		return w.names.pick("all_reduce")
	case allGather:
		return w.names.pick("all_gather", "logits_all_gather")
	case preparation:
		return inputs
	case copying:
		return copies
	case scan:
		return w.names.pick("scan")
	}
	return ""
}

// norm is that ahead of attention, of queries and keys, ahead of the feed-forward, or the last.
func (w *walker) norm() string {
	switch {
	case w.layer == ahead && w.current != "":
		return w.names.pick("qk_norm_rotary", "rotary", "q_a_layernorm")
	case w.layer == ahead:
		return w.names.pick("input_layernorm")
	case w.layer == behind:
		w.layer = inside
		return w.names.pick("post_attention_layernorm")
	case w.coming(attention, cacheWrite):
		w.layer, w.current = ahead, ""
		return w.names.pick("input_layernorm")
	}
	w.layer, w.current = ahead, ""
	return w.names.pick("norm")
}

// unnamed is a kernel that torch.compile made of what it does not say: ahead of attention,
// rotary embedding.
func (w *walker) unnamed() string {
	if w.layer == ahead && w.current != "" && w.coming(attention, cacheWrite) {
		return w.names.pick("rotary", "qk_norm_rotary")
	}
	if w.layer == ahead && w.at > 0 && !w.coming(attention, cacheWrite) {
		return gather
	}
	return ""
}

// dense is which GEMM it is. Quantization belongs to the GEMM after it, and the sum of
// parts to the one before.
func (w *walker) dense(k *kernel) string {
	if k.class == splitK {
		return w.current
	}
	name := ""
	switch {
	case w.layer == behind:
		name = w.names.pick("o_proj")
	case w.layer == inside && w.soon() == activation:
		name = w.names.pick("gate_up_proj", "up_proj", "shared_gate_up_proj")
	case w.layer == inside && (w.soon() == routing || w.soon() == experts):
		name = w.names.pick("router")
	case w.layer == after && w.coming(attention, cacheWrite):
		name = w.names.pick("down_proj", "shared_down_proj")
	case w.layer == after && w.soon() == norm:
		name = w.names.pick("down_proj", "shared_down_proj")
	case w.layer == ahead && w.coming(attention, cacheWrite):
		name = w.names.pick(w.names.projections...)
	case k.class == gemm:
		name, w.done = w.names.pick("lm_head"), true
	}
	if k.class == gemm {
		w.current = name
	}
	return name
}

// soon is the class of the next kernel that is a mark of where in a layer it is.
func (w *walker) soon() class {
	for i := w.at + 1; i < len(w.kernels); i++ {
		switch c := w.kernels[i].class; c {
		case attention, cacheWrite, activation, routing, experts, norm, sampling:
			return c
		}
	}
	return unnamed
}

func (w *walker) coming(classes ...class) bool {
	return slices.ContainsFunc(w.kernels[w.at+1:], func(k kernel) bool { return slices.Contains(classes, k.class) })
}

// tail is role of what comes after the LM head: sampling, until the step's result is on its way.
func (w *walker) tail(k *kernel) string {
	switch k.class {
	case splitK:
		return w.current
	case copying:
		return copies
	case allGather:
		return w.names.pick("logits_all_gather")
	case preparation:
		w.current = inputs
		return inputs
	}
	if w.current == inputs {
		return inputs
	}
	return w.names.pick("sampling")
}

// A class is what a kernel does, judged by its name.
type class uint8

const (
	unnamed   class = iota // a name from which nothing follows: triton_poi_fused_3
	embedding              // the gather that a step begins with, and what is fused with it
	gemm                   // a dense GEMM
	splitK                 // the sum of a GEMM's parts
	quantize               // quantization of the input of a GEMM
	norm
	rotary
	cacheWrite
	attention
	combine // the sum of an attention's parts
	activation
	routing // the choice of experts, the sort of pairs and the sum of results
	experts // a grouped GEMM
	allReduce
	allGather
	sampling
	preparation // preparation of a step's inputs
	copying     // a copy by the driver
	filling     // a fill of a workspace
	scan        // the scan of a state-space model or linear attention
)

// A rule names kernels by parts of their names, in lower case.
type rule struct {
	class class
	parts []string
}

// rules are tried in order. The names are those of vLLM 0.25 and SGLang 0.5 with torch 2.11 on
// Hopper: cuBLASLt's nvjet, CUTLASS, FlashAttention 3, FlashInfer, Triton by torch.compile.
var rules = []rule{
	{copying, []string{"memcpy"}},
	{filling, []string{"memset", "fillfunctor"}},
	{allReduce, []string{"all_reduce", "allreduce", "cross_device_reduce", "reducescatter", "multimem_all_reduce"}},
	{allGather, []string{"allgather", "all_gather", "sendrecv", "alltoall", "nccldevkernel"}},
	{splitK, []string{"splitkreduce", "splitk_reduce"}},
	{combine, []string{"attnfwdcombine", "flash_fwd_splitkv_combine", "mergestates", "merge_attn_states", "kernel_unified_attention_reduce",
		"reduce_segments", "decode_stage2"}},
	{preparation, []string{"prepare_varlen", "prepare_", "_gather_block_tables", "slot_mapping", "_post_update", "_combine_sampled",
		"num_sampled", "_apply_write", "arange", "compute_position", "advance_step", "get_last_loc", "write_req_to_token", "kv_indices"}},
	{cacheWrite, []string{"reshape_and_cache", "concat_and_cache", "store_kv", "set_kv_buffer", "storekvcache"}},
	{attention, []string{"flashattn", "flash_fwd", "flash_attn", "fmha", "batchprefill", "batchdecode", "singleprefill", "singledecode",
		"paged_attention", "unified_attention", "flash_mla", "flashmla", "_fwd_grouped_kernel", "mla_kernel"}},
	{experts, []string{"fused_moe_kernel", "grouped_gemm", "groupproblemshape", "moe_gemm", "grouped_mm", "cutlass_moe"}},
	{routing, []string{"topkgating", "topk_softmax", "topk_sigmoid", "grouped_topk", "moe_align", "count_and_sort_expert", "moe_sum",
		"expert_map", "moe_permute", "moe_unpermute", "fused_gate"}},
	{sampling, []string{"_gumbel", "sampl", "argmax", "topp", "top_p", "penalt", "cunn_softmax", "distribution_"}},
	{embedding, []string{"embedding"}},
	{activation, []string{"silu", "gelu", "swiglu", "act_and_mul"}},
	{norm, []string{"rms_norm", "rmsnorm", "layer_norm", "layernorm"}},
	{rotary, []string{"rotary", "rope"}},
	{quantize, []string{"scaled_fp8_quant", "per_token_group_quant", "per_token_quant", "quant", "clamp"}},
	{scan, []string{"selective_scan", "ssd_", "chunk_scan", "chunk_state", "causal_conv1d", "gated_delta", "state_passing",
		"fused_recurrent"}},
	{gemm, []string{"nvjet", "gemm", "gemv", "cutlass_3x", "cutlass::kernel", "xmma", "scaled_mm", "marlin", "splitk", "dot_kernel"}},
}

// classOf judges what a kernel does by its name.
func classOf(name string) class {
	lower := strings.ToLower(name)
	for i := range rules {
		for _, part := range rules[i].parts {
			if strings.Contains(lower, part) {
				return rules[i].class
			}
		}
	}
	return unnamed
}

// short is a kernel's name without the types that it was made with.
func short(name string) string {
	name = strings.TrimPrefix(name, "void ")
	name = strings.NewReplacer("at::native::", "", "(anonymous namespace)::", "").Replace(name)
	if i := strings.IndexAny(name, "<("); i > 0 && !strings.HasPrefix(name, "Mem") {
		name = name[:i]
	}
	const most = 60
	if len(name) > most {
		name = name[:most]
	}
	return name
}
