package roofline_test

import (
	"fmt"

	"llmprof/roofline"
	"llmprof/unit"
)

// A machine prices a GEMM of one row, which waits for its weights, and one of 8192 rows, which waits for the
// matrix units.
func Example() {
	peaks := roofline.Peaks{Vector: 66.9e12, Memory: 3.35e12} // those of an H100
	peaks.Matrix[unit.BF16] = 989.4e12
	var constants roofline.Constants
	constants[roofline.GEMMCompute], constants[roofline.GEMMMemory], constants[roofline.GEMMFixed] = 0.80, 0.835, 3.8e-6
	machine := roofline.NewMachine(&peaks, &constants)

	for _, rows := range []float64{1, 8192} {
		const inputs, outputs = 4096, 14336
		kernel := roofline.Kernel{
			Class: roofline.GEMM, Format: unit.BF16, Launches: 1, Count: 1,
			Shape: roofline.Shape{M: rows, N: outputs, K: inputs},
			Work: roofline.Work{FLOPs: unit.FLOPs(2 * rows * inputs * outputs), Weights: unit.BF16.Bytes(inputs * outputs),
				Acts: unit.BF16.Bytes(rows * (inputs + outputs))},
		}
		var cost roofline.Cost
		machine.Price(&cost, &kernel)
		fmt.Println(cost.Time, cost.Bound)
	}
	// Output:
	// 45.80 µs memory
	// 1.219 ms compute
}
