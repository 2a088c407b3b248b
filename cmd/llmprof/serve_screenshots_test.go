//go:build browser

package main

import (
	"os"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"llmprof/internal/testkit"
)

// The pictures of docs/page.md are taken by UPDATE_SCREENSHOTS=1 go test -tags browser ./cmd/llmprof -run Screenshots. Windows
// are as high as the page.
func TestScreenshots(t *testing.T) {
	if os.Getenv("UPDATE_SCREENSHOTS") == "" {
		t.Skip("UPDATE_SCREENSHOTS=1 takes the pictures of docs/page.md anew")
	}
	for _, shot := range []struct {
		file, link    string
		width, height int64
		deployments   bool
	}{
		{"page-1400.png", "#model=qwen3-30b-a3b&gpu=h100-sxm-80gb&batch=32&prompt-len=2048&gen-len=512&target.ttft=3000&target.tpot=30", 1400,
			3300, true},
		{"page-2560.png",
			"#model=deepseek-v3&gpu=h200-sxm-141gb&tp=8&batch=16&target.tpot=20&view.theme=dark" +
				"&pin.model=deepseek-v3&pin.gpu=b200-sxm-180gb&pin.tp=8&pin.batch=16", 2560, 2320, true},
		{"page-390.png", "#model=llama3.1-8b&gpu=l4-24gb&weights=fp8", 390, 1500, false},
	} {
		p := browse(t, shot.link, &serveOrder{})
		p.do(t, chromedp.EmulateViewport(shot.width, shot.height), chromedp.Reload())
		p.wait(t, settled)
		if shot.deployments {
			p.click(t, "Search")
			p.wait(t, `document.querySelectorAll("#plan tbody tr").length > 3`)
		}
		p.eval(t, `(() => { scrollTo(0, 0); document.activeElement?.blur(); return 0; })()`, nil)
		p.do(t, chromedp.Sleep(3*time.Second))
		var picture []byte
		p.do(t, chromedp.CaptureScreenshot(&picture))
		picture, err := testkit.Paletted(picture)
		testkit.Must(t, err)
		if err := os.WriteFile("../../docs/"+shot.file, picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
