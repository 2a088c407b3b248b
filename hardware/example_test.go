package hardware_test

import (
	"fmt"

	"llmprof"
	"llmprof/hardware"
	"llmprof/unit"
)

// A short name finds an entry, which says what it is and how fast.
func Example() {
	g, err := hardware.Find(llmprof.HardwareTOML, "a100")
	if err != nil {
		fmt.Println(err)
		return
	}
	bf16, _ := g.Peak(unit.BF16)
	fmt.Println(g.Name, bf16, g.Bandwidth, g.Link)
	fmt.Println("fp8:", g.Has(unit.FP8))

	_, err = hardware.Find(llmprof.HardwareTOML, "a1000")
	fmt.Println(err)
	// Output:
	// A100 SXM 80GB 312.0 TFLOP/s 2.039 TB/s 300.0 GB/s
	// fp8: false
	// GPU "a1000" is not known; did you mean a100, a6000, a2000, a4000, a5000?
}
