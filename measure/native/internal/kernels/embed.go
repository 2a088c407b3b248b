// Package kernels embeds the engine's CUDA C++, which is compiled on the machine where it runs.
package kernels

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed *.cu *.cuh
var files embed.FS

// Source is the program of all kernels, with common code first.
func Source() (string, error) {
	var b strings.Builder
	for _, name := range []string{
		"ptx.cuh", "hopper.cuh", "older.cuh", "common.cuh", "quantized.cuh", "random.cu", "quantize.cu", "elementwise.cu", "ll_protocol.cuh",
		"gemm_skinny.cu", "gemm_wgmma.cu", "gemm_quantized.cu",
		"attention_decode.cu", "attention_prefill.cu", "attention_prefill_hopper.cu", "output_norm.cu", "moe.cu", "moe_decode.cu",
		"moe_megakernel_state.cuh", "moe_megakernel_ll.cuh", "moe_megakernel_copy.cuh", "moe_megakernel_gemm.cuh",
		"moe_megakernel_attention.cuh", "moe_megakernel_experts.cuh", "moe_megakernel_token.cuh", "moe_megakernel.cu", "moe_prefill_hopper.cu",
		"moe_quantized.cu", "tensor_parallel.cu", "probe.cu",
	} {
		text, err := files.ReadFile(name)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "#line 1 %q\n%s", name, text)
	}
	return b.String(), nil
}
