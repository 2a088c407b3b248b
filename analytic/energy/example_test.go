package energy_test

import (
	"fmt"
	"log"

	"llmprof"
	"llmprof/analytic/energy"
	"llmprof/hardware"
	"llmprof/roofline"
	"llmprof/unit"
)

// By how much does its power limit slow an H100 that does nothing but a large GEMM?
func Example() {
	gpu, err := hardware.Find(llmprof.HardwareTOML, "h100")
	if err != nil {
		log.Fatal(err)
	}
	peaks, err := gpu.Peaks()
	if err != nil {
		log.Fatal(err)
	}
	cal := hardware.DefaultCalibration(&gpu)
	prices := roofline.NewMachine(peaks, &cal.Constants)
	power := energy.PowerOf(&gpu, &cal, prices)

	cost := prices.Cost(&roofline.Kernel{
		Class: roofline.GEMM, Format: unit.BF16, Count: 1, Launches: 1,
		Shape: roofline.Shape{M: 8192, N: 8192, K: 8192}, Work: roofline.Work{FLOPs: 2 * 8192 * 8192 * 8192, Acts: 3 * 8192 * 8192 * 2},
	})
	var load energy.Load
	power.Take(&load, &cost)
	clocks, throttled := power.Limit(&load)
	fmt.Printf("arithmetic takes %.2f times as long, the GEMM %v longer than %v\n", clocks.At, throttled, cost.Time)
	// Output:
	// arithmetic takes 1.11 times as long, the GEMM 153.4 µs longer than 1.393 ms
}
