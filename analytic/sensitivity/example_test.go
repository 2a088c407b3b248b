package sensitivity_test

import (
	"fmt"

	"llmprof/analytic"
	"llmprof/analytic/sensitivity"
)

// Of an estimate that waits for memory alone, more bandwidth is what helps.
func Example() {
	e := analytic.Estimate{Tokens: 127}
	e.TTLT.Expected, e.Decode.Depends[analytic.MemoryBandwidth] = 0.6, 0.004
	fastest := sensitivity.Resources(&e)[0]
	fmt.Printf("%s: %v\n", fastest.Name, fastest.TTLT.Expected)
	// Output:
	// memory bandwidth: 553.8 ms
}
