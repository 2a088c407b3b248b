package engine_test

import (
	"fmt"
	"log"

	"llmprof/analytic/engine"
)

// An engine at a release that was not measured says so.
func Example() {
	e, err := engine.Parse("vllm@0.19.0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(e.Profile().Name)
	fmt.Println(e.Profile().Unmeasured)
	// Output:
	// vllm@0.19.0
	// vLLM 0.19.0: not measured; constants of 0.25.1, wider by 14 %
}
