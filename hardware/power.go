package hardware

import "llmprof/roofline"

// powerOfH200 is what an H200 drew, whose limit is 700 W. Calibrations of the native engine on an H100 and an H200 have
// constants of their own.
//
//   - Idle: 79 W without a process.
//   - Waiting: 121.2 W, the median of the 41 windows with a model loaded and nothing
//     to do of experiments/h200, which go from 116 to 126 W; 123 W between the
//     operators of testdata/h200_operators.json.
//   - Memory: GEMMs of one row drew 562 W at 4.26 TB/s (the same file). GEMMs of 8
//     and 32 rows, which nothing was taken from, then come within 3 % of the 572 and
//     663 W measured.
//   - Fixed: the least mean error of the energy per token of Llama-3.1-8B in a graph
//     (validate/observations/h200.csv), so those rows are scored separately.
//   - Network: all-reduces of 256 KB to 256 MB over two and four H100s by the native engine's kernels
//     (experiments/h100-native/rows.jsonl.gz).
//   - Skinny, Attention: not measured apart; kernels are taken to draw what the
//     GEMMs of a library do for the bytes that they move.
func powerOfH200(c *roofline.Constants) {
	c[roofline.PowerMemory], c[roofline.PowerSkinnyGEMM], c[roofline.PowerAttention] = 0.70, 0.70, 0.70
	c[roofline.PowerNetwork], c[roofline.PowerFixed] = 0.21, 0.16
	c[roofline.PowerWaiting], c[roofline.PowerIdle] = 0.068, 0.11
}

// powerOfBursts is what large GEMMs of an H100 drew in bursts (experiments/power, go test ./energy -run FullClocks). It is
// taken for an H200 too, which has the same chip and the same power limit.
func powerOfBursts(c *roofline.Constants, key string) {
	if key == "h100-sxm-80gb" || key == "h200-sxm-141gb" {
		c[roofline.PowerMatrix] = 1.72
	}
}
