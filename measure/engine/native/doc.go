// Package native is an engine of the project's own: decoders of the Llama kind,
// Gemma's and mixtures of experts in bf16 or fp16 on one NVIDIA GPU, or on several
// of a host that share a model (Team), with the operators that the estimate counts,
// one for one, and nothing between them.
//
// The host is Go; kernels are CUDA C++ (package kernels), compiled for the GPU
// at hand when they are first needed; libraries are opened at run time
// (package cuda). A prompt goes through cuBLASLt and a FlashAttention kernel;
// a decode step is one CUDA graph of five kernels a layer, each of which carries
// the small operators beside it:
//
//	embedding      gather, first norm's sums
//	qkv_proj       input norm
//	attention      bias, q and k norm, rotation, KV write, split and merged
//	o_proj         residual sum, next norm's sums
//	gate_up_proj   norm, SwiGLU
//	down_proj      residual sum, next norm's sums
//
// or, in place of the last two, of a mixture
//
//	router            norm
//	top_k
//	experts_gate_up   norm, SwiGLU
//	experts_down      residual sum, next norm's sums
//
// and around the layers
//
//	lm_head        final norm
//	sampling       greedy; moves the position on
//
// Where GPUs share a model, all_reduce follows o_proj and down_proj.
//
// The residual stream is float32, everything that enters a product has 16 bits,
// weights in fp8 and int4 once they are widened, and every sum is float32. Sums
// are in a fixed order: a model, a seed and a workload give the same tokens every
// time on the same GPU.
package native
