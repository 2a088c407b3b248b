//go:build browser

package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// wide sets the width of the window.
func (p *tab) wide(t *testing.T, width int64) {
	t.Helper()
	p.sized(t, width, 1000)
}

// sized sets the size of the window.
func (p *tab) sized(t *testing.T, width, height int64) {
	t.Helper()
	// Until the charts know their width.
	p.do(t, emulation.SetDeviceMetricsOverride(width, height, 1, false), chromedp.Sleep(100*time.Millisecond))
	p.followed(t)
}

// crossed is a script that finds labels which a line of their chart goes through.
const crossed = `["roofline", "pareto"].flatMap((id) => [...document.querySelectorAll("#" + id + " .chart svg")].flatMap((svg) => {
	const labels = [...svg.querySelectorAll("[data-mark=label] text")].map((e) => [e.textContent, e.getBoundingClientRect()]),
		found = new Set();
	for (const path of svg.querySelectorAll("[data-mark=line] path, [data-mark=link] path")) {
		const to = path.getScreenCTM();
		for (let at = 0; at <= path.getTotalLength(); at += 2) {
			const p = path.getPointAtLength(at).matrixTransform(to);
			for (const [text, b] of labels) if (p.x > b.left + 1 && p.x < b.right - 1 && p.y > b.top + 2 &&
				p.y < b.bottom - 2) found.add(id + ": a line goes through " + text);
		}
	}
	return [...found];
}))`

// No text of a chart lies over another one or over a line, or outside of the chart.
func TestPageLabelsApart(t *testing.T) {
	p := browse(t, "#model=deepseek-v3&gpu=h200-sxm-141gb&tp=8&batch=16", &serveOrder{})
	p.wait(t, settled+` && llmprofTimes.answered.cards && llmprofTimes.answered.rate`)
	for _, link := range []string{
		"#model=deepseek-v3&gpu=h200-sxm-141gb&tp=8&batch=16", "#model=deepseek-v3&gpu=h200-sxm-141gb&tp=8&batch=16&view.phase=prefill",
		"#model=qwen3-30b-a3b&gpu=h100-sxm-80gb&batch=32&prompt-len=2048", "#model=nemotron-h-8b&gpu=l40s&batch=4",
		"#model=llama3.1-8b&gpu=rtx-4090&weights=q4_k_m&engine=llama.cpp",
		"#model=llama3.1-70b&gpu=a100-sxm-80gb&tp=4&prompt-len=4000&gen-len=400",
	} {
		p.eval(t, fmt.Sprintf(`location.hash = %q; 0`, link), nil)
		p.followed(t)
		p.wait(t, settled)
		for _, width := range []int64{390, 1400} {
			p.wide(t, width)
			var wrong []string
			p.eval(t, `["roofline", "pareto", "latency", "rates", "accuracy"].flatMap((id) =>
				[...document.querySelectorAll("#" + id + " .chart svg")].flatMap((svg) => {
				const frame = svg.getBoundingClientRect(), all = [...svg.querySelectorAll("text")].filter((e) => e.textContent &&
					!e.closest("[data-mark=tip]")).map((e) => [e.textContent, e.getBoundingClientRect()]), found = [];
				all.forEach(([text, a], i) => {
					if (a.left < frame.left - 1 || a.right > frame.right + 1 || a.top < frame.top - 1 || a.bottom >
						frame.bottom + 1) found.push(id + ": " + text + " leaves the chart");
					for (const [other, b] of all.slice(i + 1)) if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 &&
						b.top < a.bottom - 2) found.push(id + ": " + text + " over " + other);
				});
				return found;
			}))`, &wrong)
			var through []string
			p.eval(t, crossed, &through)
			var twice []string // cards whose name says nothing of which of its points it stands beside
			p.eval(t, `[...document.querySelectorAll("#pareto [data-mark=label] text")].map((e) => e.textContent).filter((text, i, all) =>
				all.indexOf(text) < i)`, &twice)
			if len(twice) > 0 {
				t.Errorf("%s at %d px: cards are named twice: %q", link, width, twice)
			}
			for _, w := range append(wrong, through...) {
				t.Errorf("%s at %d px: %s", link, width, w)
			}
		}
	}
	var labels int
	p.eval(t, `document.querySelectorAll("#roofline [data-mark=label] text, #pareto [data-mark=label] text").length`, &labels)
	if labels < 6 {
		t.Errorf("%d labels in both charts: too few say something", labels)
	}
	p.quiet(t)
}

// On a phone the verdict is in the window from the first view on, whatever is scrolled to, and all views get their answers
// where those of the load are in the window at once.
func TestPageOnAPhone(t *testing.T) {
	p := browse(t, "#model=llama3.1-8b&gpu=l4-24gb&weights=fp8&view.load=rate&rate=2&target.tpot=5", &serveOrder{})
	for _, height := range []int64{4200, 844} {
		p.do(t, emulation.SetDeviceMetricsOverride(390, height, 1, true), chromedp.Reload())
		p.wait(t, `["estimate", "load", "batch", "rate", "cards", "gpus"].every((kind) => llmprofTimes.answered[kind])`)
	}
	tpot := strings.TrimSuffix(p.text(t, "#under .tile:nth-child(2) .value"), " mean")
	for _, to := range []int{0, 700, 3000} {
		p.eval(t, fmt.Sprintf(`scrollTo(0, %d); 0`, to), nil)
		p.do(t, chromedp.Sleep(300*time.Millisecond))
		var brief struct {
			Text        string
			Top, Bottom float64
		}
		p.eval(t, `(() => { const b = document.querySelector(".brief"), r = b.getBoundingClientRect(); return { text: b.innerText, top: r.top,
			bottom: r.bottom }; })()`, &brief)
		if !strings.Contains(brief.Text, "misses the target") || !strings.Contains(brief.Text, "TPOT "+tpot) || brief.Top < 0 ||
			brief.Bottom > 200 {
			t.Errorf("scrolled to %d, the verdict in short is %+v", to, brief)
		}
	}
	p.wide(t, 1280)
	var shown float64
	if p.eval(t, `document.querySelector(".brief").getBoundingClientRect().height`, &shown); shown > 0 {
		t.Error("a wide window has the verdict twice")
	}
	p.quiet(t)
}

// A change of a control moves nothing but figures that stand at the right of their columns, which are less
// than a hundredth of a window of 1400 by 1000 pixels. Two windows of a tall screen have all of the page.
func TestPageStaysInPlace(t *testing.T) {
	p := browse(t, "#model=deepseek-v3&gpu=h200-sxm-141gb&tp=8&batch=16", &serveOrder{})
	p.wait(t, settled+` && llmprofTimes.answered.gpus`)
	p.eval(t, `globalThis.shifts = []; new PerformanceObserver((list) => { for (const e of list.getEntries()) shifts.push([e.value,
		...e.sources.map((s) => (s.node?.closest?.("section") ??
			s.node?.parentElement?.closest("section"))?.id + " " + s.node?.nodeName)].join(" ")); }).observe({ type: "layout-shift" }); 0`, nil)
	for _, width := range []int64{390, 1400} {
		p.sized(t, width, 1850)
		for _, y := range []int{0, 1850} {
			p.eval(t, fmt.Sprintf(`scrollTo(0, %d); 0`, y), nil)
			p.followed(t)
			for _, c := range [][2]string{{"batch", "40"}, {"prompt-len", "2000"}, {"gpu", "b200-sxm-180gb"}, {"engine", "sglang"}, {"tp", "4"},
				{"tp", "16"}, {"model", "llama3.1-70b"}, {"model", "deepseek-v3"}, {"target-ttft", "500"}, {"target-ttft", ""}, {"price", "3"},
				{"price", ""}, {"tp", "8"}, {"engine", ""}, {"gpu", "h200-sxm-141gb"}, {"batch", "16"}} {
				p.eval(t, `shifts.length = 0`, nil)
				p.set(t, c[0], c[1])
				p.followed(t)
				var moved []string
				p.eval(t, `shifts.filter((s) => parseFloat(s) > 0.004)`, &moved)
				if len(moved) > 0 {
					t.Errorf("%d px, scrolled by %d: %s = %q moves %.300q", width, y, c[0], c[1], moved)
				}
			}
		}
	}
	p.quiet(t)
}

// Printed, the page is on light ground, has its views and leaves out what nobody can press on paper.
func TestPagePrints(t *testing.T) {
	p := browse(t,
		"#model=deepseek-v3&gpu=h200-sxm-141gb&tp=8&batch=16&prompt-len=1025&gen-len=129"+
			"&max-num-batched-tokens=8192&memory-utilization=0.92&kv=fp8&target.tpot=30&view.theme=dark", &serveOrder{})
	p.wait(t, settled+` && llmprofTimes.answered.cards && llmprofTimes.answered.rate`)
	var pdf []byte
	p.do(t, chromedp.ActionFunc(func(ctx context.Context) (err error) {
		pdf, _, err = page.PrintToPDF().WithPaperWidth(8.27).WithPaperHeight(11.69).Do(ctx)
		return err
	}))
	if pages := bytes.Count(pdf, []byte("/Type /Page\n")); !bytes.HasPrefix(pdf, []byte("%PDF")) || pages < 2 || pages > 8 {
		t.Errorf("%d bytes, %d pages", len(pdf), pages)
	}
	p.do(t, emulation.SetDeviceMetricsOverride(760, 1100, 1, false), emulation.SetEmulatedMedia().WithMedia("print"))
	var printed struct{ Text, Ground, Ink string }
	p.eval(t, `({ text: document.body.innerText, ground: getComputedStyle(document.body).backgroundColor, ink:
		getComputedStyle(document.body).color })`, &printed)
	p.wait(t, `[...document.querySelectorAll("#graph svg.export .node")].every((e) => { const a = e.getBoundingClientRect(),
		b = e.ownerSVGElement.getBoundingClientRect();
		return a.left >= b.left && a.right <= b.right && a.top >= b.top && a.bottom <= b.bottom; })`) // the whole graph
	var cut []string
	p.eval(t, `[document.querySelector(".command"), ...document.querySelectorAll(".warnings li")].filter((e) => !e.checkVisibility() ||
		e.scrollWidth > e.clientWidth).map((e) => e.textContent).concat(
		[...document.querySelectorAll("th")].filter((e) => getComputedStyle(e).position !== "static").map((e) => "heading " + e.textContent),
		[...document.querySelectorAll("thead button")].filter((e) => getComputedStyle(e).display !== "contents").map((e) =>
			"button " + e.textContent),
		[...document.querySelectorAll(".chart svg")].filter((e) => e.getBoundingClientRect().width >
			e.getAttribute("width") * 1.01).map((e) => "enlarged chart of " + e.closest("section").id))`, &cut)
	if len(cut) > 0 {
		t.Errorf("paper cuts off, moves or enlarges %q", cut)
	}
	for _, want := range []string{"Fits", "meets 30 ms", "llmprof estimate --model deepseek-v3", "Roofline", "experts_gate_up",
		"Latency over rate", "Cost over speed", "Accuracy"} {
		if !strings.Contains(printed.Text, want) {
			t.Errorf("paper lacks %q", want)
		}
	}
	for _, not := range []string{"Copy link", "SVG", "Search", "Reset", "Deployments", "Click", "Select"} {
		if strings.Contains(printed.Text, not) {
			t.Errorf("paper has %q", not)
		}
	}
	if brightness(t, printed.Ground) < 240 || brightness(t, printed.Ink) > 100 {
		t.Errorf("paper has %s on %s", printed.Ink, printed.Ground)
	}
}

// The page follows the system where that turns dark while it is open, and the button then turns it light.
func TestPageFollowsTheSystem(t *testing.T) {
	p := browse(t, "#model=llama3.1-8b&gpu=h100-sxm-80gb&batch=16", &serveOrder{})
	p.wait(t, settled)
	const ground, light = `getComputedStyle(document.body).backgroundColor`, `[...document.querySelectorAll("header button")].find((b) =>
		b.textContent === "Light")`
	var color string
	for _, scheme := range []string{"light", "dark"} {
		p.do(t, emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
	}
	p.wait(t, light)
	if p.eval(t, ground, &color); brightness(t, color) > 100 {
		t.Errorf("the ground is %s", color)
	}
	p.eval(t, light+`.click()`, nil)
	p.wait(t, `location.hash.includes("view.theme=light")`)
	if p.eval(t, ground, &color); brightness(t, color) < 240 {
		t.Errorf("the ground is %s", color)
	}
}

// The memory bar stands out in the dark: the KV cache has a contrast of 3 at least.
func TestPageMemoryStandsOut(t *testing.T) {
	p := browse(t, "#model=llama3.1-8b&gpu=l4-24gb&weights=fp8&engine=sglang&batch=16&view.theme=dark", &serveOrder{})
	p.wait(t, settled)
	var contrast float64
	p.eval(t, `(() => {
		const light = (color) => { const [r, g, b] = color.match(/[\d.]+/g).map((v) => ((v / 255 + 0.055) / 1.055) ** 2.4);
			return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05; };
		const key = [...document.querySelectorAll("#memory .legend span")].find((e) => e.textContent.includes("KV cache"));
		const part = document.querySelector(key.querySelector("rect").getAttribute("fill").slice(4, -1));
		return light(getComputedStyle(part.querySelector("rect")).fill) / light(getComputedStyle(document.body).backgroundColor);
	})()`, &contrast)
	if contrast < 3 {
		t.Errorf("the KV cache has a contrast of %.1f", contrast)
	}
	p.quiet(t)
}

// The share of the memory that the page shows for an engine gives the same batch where it is given: activations that lie beside SGLang's
// are no part of it.
func TestPageShareOfMemory(t *testing.T) {
	p := browse(t, "#model=llama3.1-8b&gpu=l4-24gb&weights=fp8&engine=sglang&batch=16", &serveOrder{})
	p.wait(t, settled)
	var share string
	p.eval(t, `document.getElementById("memory-utilization").placeholder`, &share)
	most := p.text(t, "#memory .legend > :last-child b")
	p.set(t, "memory-utilization", share)
	p.followed(t)
	if same := p.text(t, "#memory .legend > :last-child b"); share == "" || most != same {
		t.Errorf("with %s of the memory %q, without %q", share, same, most)
	}
	p.quiet(t)
}

// brightness is the mean of the parts of a colour as a browser writes it.
func brightness(t *testing.T, color string) int {
	t.Helper()
	var r, g, b int
	if _, err := fmt.Sscanf(color, "rgb(%d, %d, %d)", &r, &g, &b); err != nil {
		t.Fatalf("%s: %v", color, err)
	}
	return (r + g + b) / 3
}

// blanks is a script that finds elements which reserve at least two lines that nothing is written in, as tall
// texts of which one line is used.
const blanks = `(() => { const found = [];
	for (const e of document.querySelectorAll("main p, main dd, header p, .verdict")) {
		const box = e.getBoundingClientRect(); if (box.height === 0 || e.closest(".sr")) continue;
		const range = document.createRange(); range.selectNodeContents(e);
		const used = Math.max(...[...range.getClientRects()].map((r) => r.bottom), box.top) - box.top,
			line = parseFloat(getComputedStyle(e).lineHeight) || 20;
		if (box.height - used > 1.9 * line) found.push((e.closest("section")?.id ??
			"") + " " + e.className + ": " + Math.round(box.height) + " px for " + Math.round(used));
	}
	return found; })()`

// On a narrow window no text leaves two lines or more blank.
func TestPageHasNoBlankLines(t *testing.T) {
	p := browse(t, "#model=llama3.1-8b&gpu=h100-sxm-80gb&batch=16", &serveOrder{})
	p.wait(t, settled+` && llmprofTimes.answered.cards && llmprofTimes.answered.rate`)
	for _, link := range []string{"#model=llama3.1-8b&gpu=h100-sxm-80gb&batch=16", "#model=deepseek-v3&gpu=h200-sxm-141gb&tp=8&batch=16",
		"#model=llama3.1-8b&gpu=l4-24gb&view.load=rate&rate=1"} {
		p.eval(t, fmt.Sprintf(`location.hash = %q; 0`, link), nil)
		p.followed(t)
		p.wait(t, settled)
		for _, width := range []int64{390, 1280} {
			p.wide(t, width)
			var found []string
			if p.eval(t, blanks, &found); len(found) > 0 {
				t.Errorf("%s at %d px: %v", link, width, found)
			}
		}
	}
	p.quiet(t)
}

// No figure of the verdict is wider than its place, those of a load among them, no bound and no figure in the table of operators, also
// beside A, and no name of a model.
func TestPageFiguresFit(t *testing.T) {
	p := browse(t,
		"#model=qwen3-next-80b-a3b&gpu=h200-sxm-141gb&tp=8&view.load=concurrency&concurrency=1000"+
			"&pin.model=qwen3-next-80b-a3b&pin.gpu=h200-sxm-141gb", &serveOrder{})
	p.wait(t, settled)
	for _, width := range []int64{390, 700, 1000, 1280, 1400, 1920, 2560} {
		p.wide(t, width)
		p.followed(t)
		var wide []string
		p.eval(t, `[...document.querySelectorAll("#verdict .value, #operators :is(.n, td:nth-child(4)), #model")].filter((e) =>
			e.scrollWidth > e.clientWidth).map((e) => e.textContent || e.value)`, &wide)
		if len(wide) > 0 {
			t.Errorf("%d px: wider than their places: %q", width, wide)
		}
	}
	p.quiet(t)
}

// No row of operators that can be read is of the state before, which a screen reader or a search in the page would tell.
func TestPageRowsAreOfOneState(t *testing.T) {
	p := browse(t, "#model=deepseek-v3&gpu=h200-sxm-141gb&tp=8&batch=16", &serveOrder{})
	p.wait(t, settled)
	const rows = `[...document.querySelectorAll("#operators tbody tr")].map((r) => (getComputedStyle(r).visibility === "visible" ?
		r.textContent : ""))`
	for _, to := range []string{"prompt-len=3000&batch=37", "prompt-len=3000&batch=37&view.phase=prefill"} {
		var early, late []string
		// The rows are read when the first of them has changed, before the browser paints it.
		p.content(t, fmt.Sprintf(`new Promise((done) => {
			const table = document.querySelector("#operators table"), watch = new MutationObserver(() => { watch.disconnect(); done(%s); });
			table.scrollIntoView();
			watch.observe(table, { subtree: true, childList: true, characterData: true });
			location.hash = "#model=deepseek-v3&gpu=h200-sxm-141gb&tp=8&%s";
		})`, rows, to), &early)
		p.followed(t)
		p.eval(t, rows, &late)
		if len(early) < 30 || len(early) != len(late) || early[0] == "" {
			t.Fatalf("%s: %d rows at once, then %d: %q", to, len(early), len(late), early)
		}
		for i := range early {
			if early[i] != "" && early[i] != late[i] {
				t.Errorf("%s: row %d first says %q, then %q", to, i+1, early[i], late[i])
			}
		}
	}
	p.quiet(t)
}

// A change writes no text that stays the same, since the browser lays out anew what is written.
func TestPageWritesWhatChanges(t *testing.T) {
	p := browse(t, "#model=deepseek-v3&gpu=h200-sxm-141gb&tp=8&batch=16", &serveOrder{})
	p.wait(t, settled)
	p.followed(t)
	p.eval(t, `globalThis.same = []; {
		const data = Object.getOwnPropertyDescriptor(CharacterData.prototype, "data");
		Object.defineProperty(CharacterData.prototype, "data", { get: data.get, set(text) {
			if (data.get.call(this) === String(text)) same.push(this.parentElement?.outerHTML.slice(0, 80)); data.set.call(this, text); } });
	} 0`, nil)
	p.set(t, "batch", "41")
	p.followed(t)
	var same []string
	if p.eval(t, `same`, &same); len(same) > 4 {
		t.Errorf("%d texts are written that stay the same, as %q", len(same), same[:4])
	}
	p.quiet(t)
}

// A view just below the window is not drawn together with those in it, which would be painted later by as much.
func TestPageDrawsTheWindowFirst(t *testing.T) {
	p := browse(t, "#model=deepseek-v3&gpu=h200-sxm-141gb&tp=8&batch=16", &serveOrder{})
	p.wait(t, settled)
	p.followed(t)
	var below float64
	if p.eval(t, `scrollTo(0, 0); document.getElementById("operators").getBoundingClientRect().top`, &below); below < 0 || below > 1100 {
		t.Fatalf("operators stand at %.0f pixels", below)
	}
	p.sized(t, 1400, int64(below)-20)
	p.followed(t)
	p.eval(t, `globalThis.together = []; {
		const views = ["roofline", "operators"].map((id) => document.getElementById(id));
		const watch = new MutationObserver((all) => together.push(views.map((v) => all.some((m) => v.contains(m.target)))));
		for (const v of views) watch.observe(v, { subtree: true, childList: true, characterData: true, attributes: true });
	} 0`, nil)
	p.set(t, "batch", "43")
	p.followed(t)
	var together [][2]bool
	p.eval(t, `together`, &together)
	var roofline, operators bool
	for _, both := range together {
		if both[0] && both[1] {
			t.Error("the table below the window is drawn together with the roofline in it")
		}
		roofline, operators = roofline || both[0], operators || both[1]
	}
	if !roofline || !operators {
		t.Errorf("drawn: the roofline %v, the table %v", roofline, operators)
	}
	p.quiet(t)
}

// point moves the pointer to the first mark of a chart, and clicks it if it is told to.
func (p *tab) point(t *testing.T, mark string, click bool) {
	t.Helper()
	p.eval(t, fmt.Sprintf(`(() => {
		const mark = document.querySelector(%q), svg = mark.closest("svg");
		mark.scrollIntoView({ block: "center" });
		const b = mark.getBoundingClientRect(), at = { clientX: b.left + b.width / 2, clientY: b.top + b.height / 2, bubbles: true };
		svg.dispatchEvent(new PointerEvent("pointermove", at));
		if (%v) svg.dispatchEvent(new MouseEvent("click", at));
		return 0; })()`, mark, click), nil)
}

// The pointer shows what is known of a point, in the figures of the present state, and a click chooses or adopts it.
func TestPageTellsOfPoints(t *testing.T) {
	p := browse(t, "#model=qwen3-30b-a3b&gpu=h100-sxm-80gb&batch=16", &serveOrder{})
	p.wait(t, settled+` && llmprofTimes.answered.cards`)
	const dot, told = `#roofline [data-mark=dot] path`, `document.querySelector("#roofline .tip")?.textContent ?? ""`
	var first, second string
	p.point(t, dot, false)
	p.eval(t, told, &first)
	var outside int // lines that leave the tip's box, or a box that leaves its chart
	p.eval(t, `(() => { const tip = document.querySelector("#roofline .tip"), within = (a, b) => a.left >= b.left - 1 &&
		a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1, box = tip.querySelector("rect").getBoundingClientRect();
		return [...tip.querySelectorAll("text")].filter((e) => !within(e.getBoundingClientRect(), box)).length + !within(box,
			tip.closest("svg").getBoundingClientRect()); })()`, &outside)
	if outside > 0 {
		t.Errorf("%d lines or boxes of a tip are outside", outside)
	}
	p.set(t, "batch", "64")
	p.wait(t, `document.querySelector("#verdict .command").textContent.endsWith("--batch 64") && !document.querySelector(".tip")`)
	p.point(t, dot, true)
	p.eval(t, told, &second)
	p.wait(t, `document.querySelectorAll("#operators tr[aria-selected=true]").length === 1`)
	var row []string // cells of a row of the table
	p.eval(t, `[...document.querySelector("#operators tr[aria-selected=true]").children].map((c) => c.textContent)`, &row)
	if first == second || !strings.Contains(second, row[0]) || !strings.Contains(second, row[1]+", "+row[2]+" of the phase") ||
		!strings.Contains(second, "floor "+row[5]) {
		t.Errorf("the roofline tells %q, then %q; the table has %q", first, second, row)
	}
	p.point(t, `#latency [data-mark=dot] path, #latency g[data-mark=dot] circle`, true)
	p.wait(t, `document.querySelector("#verdict .command").textContent.endsWith("--batch 1")`)
	p.point(t, `#pareto [data-mark=dot] path`, true)
	p.wait(t, `!document.querySelector("#verdict .command").textContent.endsWith("--gpu h100-sxm-80gb --batch 1")`)
	p.quiet(t)
}
