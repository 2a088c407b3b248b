//go:build browser

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"llmprof/plots/colors"
	"llmprof/roofline"
)

// A tab is a page in a real browser, with all that it complained of.
type tab struct {
	context.Context
	complaints []string
}

// chromium is the browser. LLMPROF_BROWSER=required makes the lack of one an error, as it
// has to be in CI.
func chromium(t *testing.T) string {
	t.Helper()
	path := chromiumPath()
	if path == "" && os.Getenv("LLMPROF_BROWSER") == "required" {
		t.Fatal("no Chromium: install the package chromium")
	}
	if path == "" {
		t.Skip("no Chromium to open a page in: install the package chromium")
	}
	return path
}

// chromiumPath is where Chromium is; empty where it is not.
func chromiumPath() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

func (p *tab) complain(format string, args ...any) {
	p.complaints = append(p.complaints, fmt.Sprintf(format, args...))
}

// open opens a file in headless Chromium.
func open(t *testing.T, file string) *tab {
	t.Helper()
	browser := chromium(t)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser), chromedp.NoSandbox)
	ctx, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, time.Minute)
	t.Cleanup(cancel)
	ctx, _ = chromedp.NewContext(ctx)
	t.Cleanup(func() { _ = chromedp.Cancel(ctx) }) // asks the browser to end its processes, which a kill would leave behind
	page := &tab{Context: ctx}
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			page.complaints = append(page.complaints, fmt.Sprintf("console: %s", e.Type))
		case *runtime.EventExceptionThrown:
			page.complaints = append(page.complaints, e.ExceptionDetails.Error())
		case *network.EventRequestWillBeSent:
			if !strings.HasPrefix(e.Request.URL, "file:") && !strings.HasPrefix(e.Request.URL, "data:") {
				page.complaints = append(page.complaints, "request: "+e.Request.URL)
			}
		case *network.EventLoadingFailed:
			page.complaints = append(page.complaints, "failed to load: "+e.ErrorText)
		}
	})
	page.do(t, network.Enable(), runtime.Enable(), chromedp.Navigate("file://"+file))
	return page
}

func (p *tab) do(t *testing.T, actions ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(p, actions...); err != nil {
		t.Fatal(err)
	}
}

// eval evaluates a script into out.
func (p *tab) eval(t *testing.T, script string, out any) {
	t.Helper()
	p.do(t, chromedp.Evaluate(script, out))
}

func TestReportInBrowser(t *testing.T) {
	t.Run("estimate", func(t *testing.T) { inBrowser(t, 8, mixture) })
	t.Run("results", func(t *testing.T) { inBrowser(t, 10, withResults(t)) })
}

// A name that is markup is a text in the browser too.
func TestReportHostileNameInBrowser(t *testing.T) {
	file, name := hostileReport(t)
	p := open(t, file)
	var title string
	p.eval(t, `document.title`, &title)
	if !strings.HasPrefix(title, name) || len(p.complaints) > 0 {
		t.Errorf("title %q, complaints %v", title, p.complaints)
	}
}

// inBrowser holds a page to its outline and its pictures.
func inBrowser(t *testing.T, pictures int, args []string) {
	t.Helper()
	p := open(t, reported(t, args...))
	var headings []string
	p.eval(t, `Array.from(document.querySelectorAll("h1,h2,h3")).map(h => h.tagName)`, &headings)
	if len(headings) < 8 || headings[0] != "H1" || slices.Contains(headings[1:], "H1") {
		t.Errorf("headings %v: want one h1, first", headings)
	}
	for i := 1; i < len(headings); i++ {
		if headings[i] == "H3" && headings[i-1] == "H1" {
			t.Errorf("heading %d skips a level: %v", i, headings)
		}
	}
	var twice []string
	p.eval(t, `(() => { const ids = Array.from(document.querySelectorAll("[id]")).map(e => e.id); return ids.filter((id, i) =>
		ids.indexOf(id) !== i) })()`, &twice)
	if len(twice) > 0 {
		t.Errorf("ids that stand twice: %v", twice)
	}
	var figures, nameless, dead int
	p.eval(t, `document.querySelectorAll("figure svg").length`, &figures)
	p.eval(t, `Array.from(document.querySelectorAll("figure svg")).filter(s => s.getAttribute("role") !== "img" ||
		!s.querySelector("title").textContent || !s.querySelector("desc").textContent).length`, &nameless)
	p.eval(t, `Array.from(document.querySelectorAll('a[href^="#"]')).filter(a => !document.getElementById(a.hash.slice(1))).length`, &dead)
	if figures != pictures || nameless > 0 || dead > 0 {
		t.Errorf("%d figures, %d without a name or a description, %d dead links; want %d, 0, 0", figures, nameless, dead, pictures)
	}
	if len(p.complaints) > 0 {
		t.Errorf("the browser complains: %v", p.complaints)
	}
}

// Nothing is wider than the window, and every text stands out from its ground,
// by day and by night.
func TestReportFitsAndReads(t *testing.T) {
	t.Run("estimate", func(t *testing.T) { fitsAndReads(t, mixture) })
	t.Run("results", func(t *testing.T) { fitsAndReads(t, withResults(t)) })
}

func fitsAndReads(t *testing.T, args []string) {
	t.Helper()
	p := open(t, reported(t, args...))
	for _, width := range []int64{390, 768, 1400} {
		for _, scheme := range []string{"light", "dark"} {
			p.do(t, emulation.SetDeviceMetricsOverride(width, 900, 1, false),
				emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
			var over int64
			p.eval(t, `document.scrollingElement.scrollWidth`, &over)
			if over > width {
				t.Errorf("%d px, %s: the page is %d px wide", width, scheme, over)
			}
			var faint []string
			p.eval(t, contrasts, &faint)
			if len(faint) > 0 {
				t.Errorf("%d px, %s: contrast below 4.5: %v", width, scheme, faint[:min(len(faint), 5)])
			}
		}
	}
}

// contrasts lists texts whose contrast with what is behind them is below 4.5,
// the WCAG 2.2 minimum (success criterion 1.4.3), pictures apart.
const contrasts = `(() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgb = c => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1);
  	return Array.from(canvas.getImageData(0, 0, 1, 1).data) };
  const lum = c => { const [r, g, b] = c.map(v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 });
  	return 0.2126 * r + 0.7152 * g + 0.0722 * b };
  const ground = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
  	if (c[3] === 255) return c } return [255, 255, 255] };
  const bad = [];
  for (const e of document.querySelectorAll("body *:not(svg):not(svg *):not(script):not(style)")) {
    if (!Array.from(e.childNodes).some(n => n.nodeType === 3 && n.textContent.trim()) || e.closest(".away")) continue;
    const a = lum(rgb(getComputedStyle(e).color)), grounds = [ground(e)];
    const bar = e.parentElement.querySelector(":scope > .bar");
    if (bar) grounds.push(ground(bar));
    for (const g of grounds) { const b = lum(g), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    	if (ratio < 4.5) bad.push(e.tagName + "." + e.className + " " + ratio.toFixed(2) + ": " + e.textContent.trim().slice(0, 30)) }
  }
  return bad;
})()`

// Sorting gives the order that the estimate's own JSON has, by mouse and by
// keyboard, and the third press gives back the order in which operators run.
func TestReportSorts(t *testing.T) {
	p := open(t, reported(t, mixture...))
	type op struct {
		Name     string
		Expected float64 `json:"expected_s"`
	}
	var e struct{ Decode struct{ Ops []op } }
	if err := json.Unmarshal([]byte(try(t, append([]string{"estimate", "--format", "json"}, mixture...)...).stdout), &e); err != nil {
		t.Fatal(err)
	}
	var asRun, byTime []string
	for _, o := range e.Decode.Ops {
		asRun = append(asRun, strings.Replace(o.Name, "layernorm", "norm", 1))
	}
	sorted := slices.Clone(e.Decode.Ops)
	slices.SortStableFunc(sorted, func(a, b op) int { return cmp.Compare(b.Expected, a.Expected) })
	for _, o := range sorted {
		byTime = append(byTime, strings.Replace(o.Name, "layernorm", "norm", 1))
	}
	const table = `document.querySelectorAll("table.sortable")[1]`
	const names = `Array.from(` + table + `.tBodies[0].rows).filter(r => !r.classList.contains("group")).map(r =>
		r.cells[0].firstChild.textContent.trim())`
	const column = `Array.from(` + table + `.tHead.rows[0].cells).find(c => c.textContent.startsWith("expected"))`
	check := func(what, state string, want []string) {
		t.Helper()
		var got []string
		var aria string
		p.eval(t, names, &got)
		p.eval(t, column+`.getAttribute("aria-sort")`, &aria)
		if !slices.Equal(got, want) || aria != state {
			t.Errorf("%s: aria-sort %q, want %q; order\n%v\nwant\n%v", what, aria, state, got, want)
		}
	}
	check("as it was made", "none", asRun)
	p.eval(t, column+`.querySelector("button").click()`, nil)
	check("pressed once", "descending", byTime)
	p.eval(t, column+`.querySelector("button").focus()`, nil)
	p.do(t, chromedp.KeyEvent(kb.Enter))
	p.do(t, chromedp.KeyEvent(" "))
	check("pressed three times, twice by key", "none", asRun)
	if len(p.complaints) > 0 {
		t.Errorf("the browser complains: %v", p.complaints)
	}
}

// Pictures follow the reader's colour scheme, and their colours of compute, memory,
// network and launch are those of the tables.
func TestPicturesFollowTheScheme(t *testing.T) {
	p := open(t, reported(t, mixture...))
	for _, q := range []struct {
		scheme, media string
		dark          bool
	}{{"light", "screen", false}, {"dark", "screen", true}, {"dark", "print", false}} {
		p.do(t, emulation.SetEmulatedMedia().WithMedia(q.media).WithFeatures(
			[]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: q.scheme}}))
		for b := range roofline.NumBounds {
			one := colors.Bound(b).Light
			if q.dark {
				one = colors.Bound(b).Dark
			}
			want := fmt.Sprintf("rgb(%d, %d, %d)", one.R, one.G, one.B)
			var marks, swatches []string
			p.eval(t, `Array.from(document.querySelectorAll("#roofline path")).map(e => getComputedStyle(e).fill)`, &marks)
			p.eval(t, `Array.from(document.querySelectorAll("td.`+b.String()+` > span")).map(e => getComputedStyle(e, "::before").backgroundColor)`,
				&swatches)
			if (b == roofline.ByCompute || b == roofline.ByMemory) && !slices.Contains(marks, want) {
				t.Errorf("%+v: no %v mark in %s", q, b, want)
			}
			if slices.ContainsFunc(swatches, func(s string) bool { return s != want }) {
				t.Errorf("%+v: swatches of %v in %v, want %s", q, b, swatches, want)
			}
		}
	}
}

// A table that is wider than its box says so, and stops saying so at its end; at
// 1000 pixels all columns of all tables are seen.
func TestReportHintsAtScrolling(t *testing.T) {
	p := open(t, reported(t, "--model", "deepseek-v3", "--gpu", "h200", "--tp", "8", "--batch", "32"))
	const hints = `Array.from(document.querySelectorAll(".scroll")).filter(b => b.scrollWidth > b.clientWidth + 1).map(b =>
		getComputedStyle(b.previousElementSibling).display)`
	var shown []string
	p.do(t, emulation.SetDeviceMetricsOverride(390, 900, 1, false), chromedp.Sleep(100*time.Millisecond))
	p.eval(t, hints, &shown)
	if len(shown) < 4 || slices.Contains(shown, "none") {
		t.Errorf("390 px: hints of boxes that scroll: %v", shown)
	}
	var ended bool
	p.eval(t, `(() => { const b = document.querySelector("table.sortable").parentElement; b.scrollLeft = 1e6; return true })()`, nil)
	p.do(t, chromedp.Sleep(100*time.Millisecond))
	p.eval(t, `document.querySelector("table.sortable").parentElement.classList.contains("ended")`, &ended)
	if !ended {
		t.Error("390 px: the shade stays at the end of the table")
	}
	for _, width := range []int64{1000, 1600} {
		p.do(t, emulation.SetDeviceMetricsOverride(width, 900, 1, false), chromedp.Sleep(100*time.Millisecond))
		p.eval(t, hints, &shown)
		if len(shown) > 0 {
			t.Errorf("%d px: %d boxes scroll", width, len(shown))
		}
	}
}

func TestReportPrints(t *testing.T) {
	p := open(t, reported(t, mixture...))
	var pdf []byte
	p.do(t, chromedp.ActionFunc(func(ctx context.Context) (err error) {
		pdf, _, err = page.PrintToPDF().WithPreferCSSPageSize(true).Do(ctx)
		return err
	}))
	var head []string
	p.do(t, emulation.SetEmulatedMedia().WithMedia("print"))
	p.eval(t, `["thead", ".sortable thead button"].map(s => getComputedStyle(document.querySelector(s))).flatMap(c => [c.breakInside,
		c.display])`, &head)
	if want := []string{"avoid", "table-header-group", "auto", "contents"}; !slices.Equal(head, want) {
		t.Errorf("a head and its buttons in print: %v, want %v, without which Chromium repeats no head", head, want)
	}
	if n := strings.Count(string(pdf), "/Type /Page\n"); n < 4 || n > 20 {
		t.Errorf("the printed report has %d pages", n)
	}
	if dir := os.Getenv("LLMPROF_SHOTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, "report.pdf"), pdf, 0o644); err != nil {
			t.Error(err)
		}
	}
}
