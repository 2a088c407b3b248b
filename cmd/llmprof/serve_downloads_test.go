//go:build browser

package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"

	"llmprof/internal/testkit"
)

// What the buttons save is what the command line writes, drawings that stand alone and pictures three times as fine.
func TestPageDownloads(t *testing.T) {
	p := browse(t, "#model=llama3.1-8b&gpu=h100-sxm-80gb&batch=16&view.theme=dark", &serveOrder{})
	p.wait(t, settled+` && llmprofTimes.answered.cards && llmprofTimes.answered.rate &&
		document.querySelectorAll("#accuracy svg .crowd[d^=M]").length > 1`)
	folder := t.TempDir()
	p.do(t, browser.SetDownloadBehavior(browser.SetDownloadBehaviorBehaviorAllow).WithDownloadPath(folder))
	args := strings.Fields(p.text(t, "#verdict .command"))[1:]
	for name, format := range map[string]string{"JSON": "json", "CSV": "csv"} {
		p.click(t, name)
		if got, want := saved(t, folder, "estimate."+format), try(t, append(args, "--format", format)...).stdout; string(got) != want {
			t.Errorf("%s: %s", name, firstDifference(string(got), want))
		}
	}
	for view, texts := range map[string][]string{
		"memory": {"Memory of one GPU", "weights 16.1 GB", "llmprof estimate"}, "roofline": {"Roofline", "compute-bound (C)", "--batch 16"},
		"graph":   {"lm_head", "down_proj"},
		"latency": {">TTFT<", ">TPOT<"}, "rates": {">TTFT<", ">TPOT<"}, "pareto": {"tokens a second for each user"},
		"accuracy": {"predicted", "TTLT"},
	} {
		p.eval(t, `document.querySelector("#`+view+`").scrollIntoView(); 0`, nil)
		p.saves(t, view, "SVG")
		drawing := saved(t, folder, "llmprof-"+view+".svg")
		if bytes.Contains(drawing, []byte("var(--")) || bytes.Contains(drawing, []byte("currentColor")) {
			t.Errorf("%s.svg has colours of a style sheet", view)
		}
		for d := xml.NewDecoder(bytes.NewReader(drawing)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s.svg: %v", view, err)
			}
		}
		p.saves(t, view, "PNG")
		picture, err := png.Decode(bytes.NewReader(saved(t, folder, "llmprof-"+view+".png")))
		testkit.Must(t, err)
		var svg struct {
			Width float64 `xml:"width,attr"`
		}
		testkit.Must(t, xml.Unmarshal(drawing, &svg))
		if got := picture.Bounds().Dx(); math.Abs(float64(got)-3*svg.Width) > 3 {
			t.Errorf("%s.png is %d px wide, its drawing %g", view, got, svg.Width)
		}
		for _, want := range texts {
			if !bytes.Contains(drawing, []byte(want)) {
				t.Errorf("%s.svg lacks %q", view, want)
			}
		}
	}
	p.quiet(t)
}

// saves presses a button of a view.
func (p *tab) saves(t *testing.T, view, name string) {
	t.Helper()
	p.eval(t, `[...document.querySelectorAll("#`+view+` .save button")].find((b) => b.textContent === "`+name+`").click()`, nil)
}

// saved is a file that the browser has saved.
func saved(t *testing.T, folder, name string) []byte {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if text, err := os.ReadFile(filepath.Join(folder, name)); err == nil && len(text) > 0 {
			time.Sleep(100 * time.Millisecond)
			text, err = os.ReadFile(filepath.Join(folder, name))
			testkit.Must(t, err)
			if os.Getenv("KEEP") != "" {
				_ = os.WriteFile(filepath.Join(os.Getenv("KEEP"), name), text, 0o644)
			}
			return text
		}
	}
	t.Fatalf("%s is not saved", name)
	return nil
}
