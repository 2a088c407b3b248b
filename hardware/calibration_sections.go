package hardware

import "llmprof/roofline"

// calibrationSections are the tables of a calibration file with what stands above each: the equation
// of a law, or what the constants are of.
func calibrationSections() [][2]string {
	equation := func(c roofline.Class) string { return roofline.LawOf(c).Equation }
	return withSchemes([][2]string{
		{"gemm", "Products with weights by a library: " + equation(roofline.GEMM)},
		{"skinny_gemm", "Products of a decode step of few sequences by the engine's skinny GEMM: " + equation(roofline.SkinnyGEMM)},
		{"wgmma_gemm", "Products of a decode step of 17 to 64 sequences by the engine's wgmma kernel: " + equation(roofline.WGMMAGEMM)},
		{"grouped_gemm", "The grouped products of the experts, of decode steps and of prompts, by Triton, CUTLASS or TensorRT-LLM: " + equation(roofline.GroupedGEMM)},
		{"moe_decode", "The mixture of a layer in a decode step, from router to experts: " + equation(roofline.MoEDecode)},
		{"moe_prefill", "The grouped products of a prompt's experts: " + equation(roofline.MoEPrefill)},
		{"moe_routing", "Top-k of a prompt's tokens and the sort of the pairs of a token and an expert: " + equation(roofline.MoERouting)},
		{"attention", "Softmax attention between its projections: " + equation(roofline.AttentionPrefill) + "; decode has no ramp"},
		{"latent_attention", "Multi-head latent attention, over expanded keys and values in prefill and over the compressed cache in decode: " + equation(roofline.LatentPrefill)},
		{"scan", "The recurrence of linear attention over a prompt, in chunks: " + equation(roofline.ChunkedScan)},
		{"element", "Norms, activations, rotary embedding, cache writes: " + equation(roofline.Elementwise)},
		{"graph", "Kernels of a CUDA graph"},
		{"stream", "Kernels outside a CUDA graph"},
		{"link", "All-reduce over n GPUs: " + equation(roofline.AllReduce)},
		{"one_shot", "Latency of small all-reduces over peer memory: base + n × per_gpu"},
		{"fused_all_reduce", "Latency of all-reduces that products do themselves: base + n × per_gpu"},
		{"power", "What the GPU draws beside arithmetic, as shares of what lies between waiting power and limit, added up"},
		{"host", "The engine and its host"},
	})
}

// withSchemes puts behind each section those of its constants in a scheme.
func withSchemes(sections [][2]string) (all [][2]string) {
	for _, s := range sections {
		all = append(all, s)
		for scheme := roofline.FP8; scheme < roofline.NumSchemes; scheme++ {
			if name := s[0] + "_" + scheme.String(); len(constantsIn(name)) > 0 {
				all = append(all, [2]string{name, "The same, " + scheme.Help()})
			}
		}
	}
	return all
}
