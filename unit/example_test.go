package unit_test

import (
	"fmt"

	"llmprof/unit"
)

// The weights of Llama-3.1-8B in BF16 are read in the time that the bandwidth of an H100 gives.
func Example() {
	var bandwidth unit.BytesPerSec
	if err := bandwidth.UnmarshalText([]byte("3.35 TB/s")); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(unit.BF16.Bytes(8.03e9).Over(bandwidth))

	err := bandwidth.UnmarshalText([]byte("3.35 TFLOP/s"))
	fmt.Println(err)
	// Output:
	// 4.794 ms
	// "3.35 TFLOP/s" is not a data rate: "TFLOP/s" is not a unit of it; write it as in "3.35 TB/s or 400 Gb/s"
}

// Numbers of flags may end as those of vLLM's flags do.
func ExampleParseNumber() {
	thousand, _ := unit.ParseNumber("32k")
	binary, _ := unit.ParseNumber("32K")
	fmt.Println(thousand, binary)
	_, err := unit.ParseNumber("lots")
	fmt.Println(err)
	// Output:
	// 32000 32768
	// want a number, as 0.5, 512, 32k (32000), 32K (32768) or 1e3
}
