package page_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"llmprof/analytic/engine"
	"llmprof/cmd/llmprof/internal/page"
	"llmprof/deployment"
	"llmprof/models"
)

// BenchmarkChange is a change of a setting of DeepSeek-V3, and each of its views.
func BenchmarkChange(b *testing.B) {
	for _, c := range []struct{ name, do, flag string }{
		{"estimate", "estimate", "prompt-len"}, {"sweep", "sweep", "prompt-len"}, {"options", "options", "prompt-len"},
		{"cards", "sweep", "prompt-len"},
		{"rates", "load", "prompt-len"}, {"rates of other answers", "load", "gen-len"}, {"rates below", "load", "prompt-len"},
		{"highest rate", "load", "prompt-len"}, {"clients", "under", "concurrency"}, {"1000 clients", "under", "concurrency"},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := page.New()
			cards := priced(b)
			for i := 0; b.Loop(); i++ {
				r := page.Request{Do: c.do, Flags: map[string]string{"model": "deepseek-v3", "gpu": "h200", "tp": "8"}}
				switch value := i % 100; c.name {
				case "sweep":
					r.Flags["batch"] = "1..512x2"
				case "cards":
					r.Expected, r.Flags["gpu"], r.Flags["tp"], r.Flags["batch"] = true, cards, "1,2,4,8", "1..1024x4"
				case "options":
					r.Try = map[string][]string{"tp": {"1", "2", "4", "8"}, "engine": engine.Names(),
						"weights": append(models.SchemeNames(), models.FileTypes()...), "kv": deployment.Words("kv")}
				case "rates below":
					r.Part = deployment.PartBelow
				case "highest rate":
					r.Part = deployment.PartTop
				case "clients":
					r.Flags[c.flag] = fmt.Sprint(8 + value%50)
				case "1000 clients":
					r.Flags[c.flag] = fmt.Sprint(950 + value)
				}
				if c.flag != "concurrency" {
					r.Flags[c.flag] = fmt.Sprint(1000 + i%100)
				}
				request, _ := json.Marshal(r)
				if a := p.Handle(b.Context(), request); bytes.Contains(a[:min(len(a), 20)], []byte("error")) {
					b.Fatalf("%.200s", a)
				}
			}
		})
	}
}

// priced are the GPUs with a price, which the chart of all cards has.
func priced(b *testing.B) string {
	c, err := page.NewCatalog("")
	if err != nil {
		b.Fatal(err)
	}
	var keys []string
	for i := range c.GPUs {
		if c.GPUs[i].Price != nil {
			keys = append(keys, c.GPUs[i].Key)
		}
	}
	return strings.Join(keys, ",")
}
