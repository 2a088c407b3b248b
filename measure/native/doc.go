// Package native is the project's own inference engine: decoders of the Llama kind, Gemma's and MoE
// models in bf16 or fp16 on one NVIDIA GPU, or on several of a host that share a model (Team). It has
// the operators that the estimate counts and no others.
//
// The host is Go. Kernels are CUDA C++ (package kernels) and are compiled for the GPU at hand when
// they are first needed. Libraries are opened at run time (package cuda). A prefill uses cuBLASLt and
// a FlashAttention kernel. A decode step is one CUDA graph with five kernels a layer, into which the
// small operators are fused:
//
//	embedding      gather, sums of squares for the first norm
//	qkv_proj       input norm
//	attention      bias, q/k norm, RoPE, KV write, split over the context and merged
//	o_proj         residual sum, sums of squares for the next norm
//	gate_up_proj   norm, SwiGLU
//	down_proj      residual sum, sums of squares for the next norm
//
// A MoE layer has these kernels in place of the last two:
//
//	router            norm
//	top_k
//	experts_gate_up   norm, SwiGLU
//	experts_down      residual sum, sums of squares for the next norm
//
// These kernels follow the layers:
//
//	lm_head        final norm
//	sampling       greedy choice, next position
//
// If GPUs share a model, all_reduce follows o_proj and down_proj or is fused into them. A decode step
// of one sequence of a MoE model is one persistent kernel, the megakernel (moe_megakernel.go).
//
// The files gemm_skinny.go, gemm_wgmma.go and gemm_cublas.go are the GEMMs of a decode step by batch: up
// to 16 sequences, 17 to 64 on Hopper, and all others; gemm.go has those of quantized weights too.
//
// The residual stream is float32, every input of a GEMM has 16 bits (fp8 and int4 weights are
// dequantized to 16), and every sum is float32. Sums have a fixed order: a model, a seed and a
// workload give the same tokens every time on the same GPU.
package native
