//go:build browser

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// The back button takes changes back, and the forward button makes them again.
func TestPageHistory(t *testing.T) {
	p := browse(t, "#model=llama3.1-8b&gpu=h100-sxm-80gb&batch=16", &serveOrder{})
	p.wait(t, settled)
	var entries int
	p.eval(t, `history.length`, &entries)
	for _, batch := range []string{"20", "30"} {
		p.do(t, chromedp.Sleep(1200*time.Millisecond)) // changes that follow at once are one
		p.set(t, "batch", batch)
		p.wait(t, fmt.Sprintf(`location.hash.includes("batch=%s")`, batch))
	}
	p.set(t, "batch", "31")
	p.wait(t, `location.hash.includes("batch=31")`)
	var after int
	p.eval(t, `history.length`, &after)
	if after != entries+2 {
		t.Errorf("%d entries of history, want %d: one for each change, and those that follow at once in one", after, entries+2)
	}
	for _, step := range []struct{ do, batch string }{{"back", "20"}, {"back", "16"}, {"forward", "20"}, {"forward", "31"}} {
		p.eval(t, fmt.Sprintf(`history.%s(); 0`, step.do), nil)
		p.wait(t, fmt.Sprintf(`document.getElementById("batch").value === %q &&
			document.querySelector("#verdict .command").textContent.endsWith("--batch %s")`, step.batch, step.batch))
	}
	p.quiet(t)
}

// A link of another version is taken as far as it is known, and the page says what it left.
func TestPageForeignLink(t *testing.T) {
	p := browse(t, "#model=llama3.1-8b&gpu=h100-sxm-80gb&batch=4&speculator=eagle&view.layout=wide&pin.nothing=1", &serveOrder{})
	p.wait(t, settled+` && document.querySelector("#verdict .command").textContent.includes("--batch 4")`)
	if note := p.text(t, "header .note"); !strings.Contains(note, "speculator, view.layout, pin.nothing") {
		t.Errorf("the page says %q", note)
	}
	p.quiet(t)
}

// A link of a megabyte is read, and what it leaves is short.
func TestPageLongLinks(t *testing.T) {
	p := browse(t, "", &serveOrder{})
	p.wait(t, settled)
	const long = 1 << 20
	for _, fragment := range []string{
		`"#model=llama3.1-8b&gpu=h100-sxm-80gb&batch=" + "9".repeat(%d)`, `"#" + "x".repeat(%d)`,
		`"#" + "a=b&".repeat(%d / 4) + "model=llama3.1-8b&gpu=h100-sxm-80gb&batch=3"`,
		`"#model=" + "%%F0%%9F%%92%%A9".repeat(%d / 12)`, `"#pin.model=" + "<b>".repeat(%d / 3)`,
	} {
		p.eval(t, fmt.Sprintf(`location.hash = `+fragment+`; 0`, long), nil)
		p.wait(t, `location.hash.length < 2000`)
		p.eval(t, `location.hash = "#model=llama3.1-8b&gpu=h100-sxm-80gb&batch=2"; 0`, nil)
		p.wait(t, settled+` && document.querySelector("#verdict .verdict").textContent.includes("llama3.1-8b on 1") &&
			document.querySelector("#verdict .command").textContent.endsWith("--batch 2")`)
	}
	p.quiet(t)
}

// The address loses the token, which the tab keeps, so that the page reloads with all that it can do and its links give nothing away.
func TestPageKeepsToken(t *testing.T) {
	p := browse(t, "#model=llama3.1-8b&gpu=h100-sxm-80gb&batch=16", &serveOrder{})
	for range 2 {
		p.wait(t, settled+` && !location.href.includes("token") && location.hash.includes("batch=16") &&
			[...document.querySelectorAll("button")].some((b) => b.textContent === "Measure here")`)
		p.do(t, chromedp.Reload())
	}
	p.quiet(t)
}

// Two tabs of one server are two pages: what one changes the other keeps.
func TestPageTwoTabs(t *testing.T) {
	p := browse(t, "#model=llama3.1-8b&gpu=h100-sxm-80gb&batch=16", &serveOrder{})
	p.wait(t, settled)
	var here, secret string
	p.eval(t, `location.href`, &here)
	ctx, cancel := chromedp.NewContext(p.Context)
	defer cancel()
	q := &tab{Context: ctx}
	there := strings.Replace(here, "batch=16", "batch=5", 1)
	q.do(t, chromedp.Navigate(there))
	q.wait(t, `document.querySelector("#verdict .verdict")?.textContent.includes("this needs the token")`) // which the first tab alone has
	p.eval(t, `sessionStorage.getItem("token")`, &secret)
	q.do(t, chromedp.Navigate(strings.Replace(there, "#", "?token="+secret+"#", 1)))
	q.wait(t, settled+` && document.querySelector("#verdict .command")?.textContent.endsWith("--batch 5")`)
	p.do(t, page.BringToFront())
	p.set(t, "batch", "7")
	p.wait(t, `document.querySelector("#verdict .command").textContent.endsWith("--batch 7")`)
	if got := q.text(t, "#verdict .command"); !strings.HasSuffix(got, "--batch 5") {
		t.Errorf("the other tab shows %s", got)
	}
	p.quiet(t)
}

// A search takes lengths, prices and percentiles in the words of the command line.
func TestPagePlansAtPercentiles(t *testing.T) {
	p := browse(t, "#model=llama3.2-1b&gpu=l4-24gb&target.tpot=40&target.ttft=900", &serveOrder{})
	p.wait(t, settled)
	for field, value := range map[string]string{"max-gpus": "1", "tps": "300", "in": "mean=500,p95=1200", "prefix-hit-rate": "0.5",
		"price": "l20=0.05", "at": "p95"} {
		p.set(t, "plan-"+field, value)
	}
	p.click(t, "Search")
	p.wait(t, `document.querySelectorAll("#plan tbody tr").length > 3`)
	command := p.text(t, "#plan .command")
	for _, want := range []string{"--ttft p95=900ms", "--price l20=0.05", "--in mean=500,p95=1200", "--prefix-hit-rate 0.5"} {
		if !strings.Contains(command, want) {
			t.Errorf("%s lacks %s", command, want)
		}
	}
	if rows := p.text(t, "#plan tbody"); !strings.Contains(rows, "l20-48gb") || !strings.Contains(rows, ", p95 ") {
		t.Error(rows)
	}
	p.eval(t, `document.querySelector("#plan tbody tr").click(); 0`, nil)
	p.wait(t, `document.querySelector("#verdict .command").textContent.includes("--prompt-len lognormal:500")`)
	p.quiet(t)
}

// A search of deployments is that of the command line, and a row that is clicked is what the page shows.
func TestPagePlans(t *testing.T) {
	p := browse(t, "#model=llama3.1-8b&gpu=h100-sxm-80gb&batch=16&prompt-len=512&gen-len=64&target.tpot=20&target.ttft=900", &serveOrder{})
	p.wait(t, settled)
	p.set(t, "plan-max-gpus", "2")
	p.set(t, "plan-budget", "3")
	p.click(t, "Search")
	p.wait(t, `document.querySelectorAll("#plan tbody tr").length > 3`)
	args := strings.Fields(p.text(t, "#plan .command"))[1:]
	want := try(t, append(args, "--format", "json")...)
	var command struct {
		Rows []struct {
			Args []string `json:"estimate_args"`
		}
	}
	if err := json.Unmarshal([]byte(want.stdout), &command); err != nil {
		t.Fatalf("%v: %v: %s", args, err, want.stderr)
	}
	var shown []string
	p.eval(t, `[...document.querySelectorAll("#plan tbody tr")].map((r) => r.title)`, &shown)
	if len(shown) != len(command.Rows) {
		t.Fatalf("the page has %d rows, the command line %d", len(shown), len(command.Rows))
	}
	for i, r := range command.Rows {
		if line := "llmprof estimate " + strings.Join(r.Args, " "); shown[i] != line {
			t.Errorf("row %d is %s, and %s on the command line", i+1, shown[i], line)
		}
	}
	p.eval(t, `document.querySelector("#plan tbody tr").click(); 0`, nil)
	p.wait(t, fmt.Sprintf(`document.querySelector("#verdict .command").textContent.includes("--gpu %s")`, command.Rows[0].Args[3]))
	p.wait(t, `document.querySelectorAll("#verdict .tile .ok:not(.none)").length === 2`)
	p.agrees(t)
	p.quiet(t)
}

// What a card has no room for is left in the memory of a host that can be chosen, by the fastest placement or by llama.cpp's options; the
// search has rows of it that can be adopted.
func TestPageAtHome(t *testing.T) {
	p := browse(t, "#model=gpt-oss-120b&gpu=rtx-4090-24gb&prompt-len=512&gen-len=64", &serveOrder{})
	p.wait(t, settled)
	home := func(want string) {
		p.wait(t, fmt.Sprintf(`document.querySelector("#verdict .home")?.textContent.includes(%q)`, want))
	}
	p.set(t, "fit", "")
	home("--n-gpu-layers 999 --n-cpu-moe")
	p.set(t, "host", "ryzen-9950x")
	p.set(t, "ram", "64GB")
	home("Ryzen 9 9950X")
	home("Own --fit")
	p.agrees(t)
	p.set(t, "fit", "")
	p.wait(t, `!document.getElementById("n-cpu-moe").disabled`)
	p.set(t, "n-cpu-moe", "30")
	p.set(t, "ubatch", "2048")
	home("--n-cpu-moe 30 --batch-size 2048 --ubatch-size 2048")
	p.agrees(t)
	p.set(t, "plan-class", "consumer")
	p.set(t, "plan-max-gpus", "1")
	p.click(t, "Search")
	p.wait(t, `document.querySelectorAll("#plan tbody tr").length > 3`)
	if command := p.text(t, "#plan .command"); !strings.Contains(command, "--host ryzen-9950x --ram 64GB") {
		t.Error(command)
	}
	p.eval(t, `[...document.querySelectorAll("#plan tbody tr")].find((r) => r.title.includes("rtx-3090-24gb")).click(); 0`, nil)
	p.wait(t, `document.querySelector("#verdict .command").textContent.includes("--gpu rtx-3090-24gb")`)
	home("--n-cpu-moe 23")
	p.agrees(t)
	p.quiet(t)
}
