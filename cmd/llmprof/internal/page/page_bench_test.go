package page_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"llmprof/cmd/llmprof/internal/page"
)

// BenchmarkChange is a change of the batch of DeepSeek-V3, and each of its views.
func BenchmarkChange(b *testing.B) {
	for _, do := range []string{"estimate", "graph", "sweep", "load"} {
		b.Run(do, func(b *testing.B) {
			p, err := page.New()
			if err != nil {
				b.Fatal(err)
			}
			for i := 0; b.Loop(); i++ {
				r := page.Request{Do: do, Flags: map[string]string{"model": "deepseek-v3", "gpu": "h200", "tp": "8", "prompt-len": fmt.Sprint(1000 + i%100)}}
				if do == "sweep" {
					r.Flags["batch"] = "1..512x2"
				}
				request, _ := json.Marshal(r)
				p.Handle(b.Context(), request)
			}
		})
	}
}
