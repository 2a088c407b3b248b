package page_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"llmprof/analytic/engine"
	"llmprof/cmd/llmprof/internal/ask"
	"llmprof/cmd/llmprof/internal/page"
	"llmprof/models"
)

// BenchmarkChange is a change of the prompts of DeepSeek-V3, and each of its views.
func BenchmarkChange(b *testing.B) {
	for _, do := range []string{"estimate", "sweep", "load", "options"} {
		b.Run(do, func(b *testing.B) {
			p, err := page.New()
			if err != nil {
				b.Fatal(err)
			}
			for i := 0; b.Loop(); i++ {
				r := page.Request{Do: do, Flags: map[string]string{"model": "deepseek-v3", "gpu": "h200", "tp": "8", "prompt-len": fmt.Sprint(1000 + i%100)}}
				switch do {
				case "sweep":
					r.Flags["batch"] = "1..512x2"
				case "options":
					r.Try = map[string][]string{"tp": {"1", "2", "4", "8"}, "engine": engine.Names(), "weights": append(models.SchemeNames(), models.Mixes()...), "kv": ask.FormatNames()}
				}
				request, _ := json.Marshal(r)
				p.Handle(b.Context(), request)
			}
		})
	}
}
