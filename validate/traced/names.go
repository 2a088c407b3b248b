package traced

import "strings"

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
	{combine, []string{"attnfwdcombine", "flash_fwd_splitkv_combine", "mergestates", "merge_attn_states", "kernel_unified_attention_reduce", "reduce_segments", "decode_stage2"}},
	{preparation, []string{"prepare_varlen", "prepare_", "_gather_block_tables", "slot_mapping", "_post_update", "_combine_sampled", "num_sampled", "_apply_write", "arange", "compute_position", "advance_step", "get_last_loc", "write_req_to_token", "kv_indices"}},
	{cacheWrite, []string{"reshape_and_cache", "concat_and_cache", "store_kv", "set_kv_buffer", "storekvcache"}},
	{attention, []string{"flashattn", "flash_fwd", "flash_attn", "fmha", "batchprefill", "batchdecode", "singleprefill", "singledecode", "paged_attention", "unified_attention", "flash_mla", "flashmla", "_fwd_grouped_kernel", "mla_kernel"}},
	{experts, []string{"fused_moe_kernel", "grouped_gemm", "groupproblemshape", "moe_gemm", "grouped_mm", "cutlass_moe"}},
	{routing, []string{"topkgating", "topk_softmax", "topk_sigmoid", "grouped_topk", "moe_align", "count_and_sort_expert", "moe_sum", "expert_map", "moe_permute", "moe_unpermute", "fused_gate"}},
	{sampling, []string{"_gumbel", "sampl", "argmax", "topp", "top_p", "penalt", "cunn_softmax", "distribution_"}},
	{embedding, []string{"embedding"}},
	{activation, []string{"silu", "gelu", "swiglu", "act_and_mul"}},
	{norm, []string{"rms_norm", "rmsnorm", "layer_norm", "layernorm"}},
	{rotary, []string{"rotary", "rope"}},
	{quantize, []string{"scaled_fp8_quant", "per_token_group_quant", "per_token_quant", "quant", "clamp"}},
	{scan, []string{"selective_scan", "ssd_", "chunk_scan", "chunk_state", "causal_conv1d", "gated_delta", "state_passing", "fused_recurrent"}},
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
