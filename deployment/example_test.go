package deployment_test

import (
	"context"
	"fmt"
	"os"

	"llmprof/deployment"
)

// Does llama3.1-70b fit on two H100s, and how fast is it?
func Example() {
	library := deployment.Open(os.Getenv)
	ans, err := library.Answer(context.Background(), &deployment.Request{Model: "llama3.1-70b", GPU: "h100", TP: new(2), Batch: new(8)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s: %.1f of %.1f GB, TTFT %.0f ms, TPOT %.1f ms\n", ans.Verdict().Text, ans.Memory.Total/1e9, ans.Memory.Usable/1e9,
		ans.TTFT.Expected*1e3, ans.TPOT.Expected*1e3)
	// Output: fits: 75.6 of 78.2 GB, TTFT 940 ms, TPOT 29.3 ms
}
