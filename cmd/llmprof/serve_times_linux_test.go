//go:build browser

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// spent is the processor time of the page by kind of thread: that of its script and layout ("main"), of
// its workers, and of the compilers and collectors beside them ("pool").
func (p *tab) spent(t *testing.T) map[string]time.Duration {
	t.Helper()
	own := map[string]bool{strconv.Itoa(chromedp.FromContext(p.Context).Browser.Process().Pid): true}
	all := map[string]time.Duration{}
	processes, _ := filepath.Glob("/proc/[0-9]*") // the pattern is well-formed
	slices.SortFunc(processes, func(a, b string) int { return len(a) - len(b) })
	for range 4 { // generations of processes
		for _, dir := range processes {
			status, _ := os.ReadFile(filepath.Join(dir, "status"))
			if _, rest, ok := strings.Cut(string(status), "PPid:\t"); ok && own[strings.SplitN(rest, "\n", 2)[0]] {
				own[filepath.Base(dir)] = true
			}
		}
	}
	for id := range own {
		line, _ := os.ReadFile(filepath.Join("/proc", id, "cmdline"))
		if !strings.Contains(string(line), "--type=renderer") {
			continue
		}
		tasks, _ := filepath.Glob(filepath.Join("/proc", id, "task/*"))
		for _, task := range tasks {
			name, _ := os.ReadFile(filepath.Join(task, "comm"))
			stat, _ := os.ReadFile(filepath.Join(task, "schedstat")) // a thread that has ended has none
			var ns int64
			_, _ = fmt.Sscan(string(stat), &ns)
			kind := "pool"
			switch {
			case filepath.Base(task) == id:
				kind = "main"
			case strings.HasPrefix(string(name), "DedicatedWorker"):
				kind = "workers"
			}
			all[kind] += time.Duration(ns)
		}
	}
	return all
}

// rest waits until the page does nothing more. It does not look while a change is drawn: a look takes some 10 ms of a processor,
// and with two processors the change would wait for it.
func (p *tab) rest(t *testing.T) {
	t.Helper()
	last := time.Duration(-1)
	for range 600 {
		time.Sleep(150 * time.Millisecond)
		now := time.Duration(0)
		for _, v := range p.spent(t) {
			now += v
		}
		if last >= 0 && now-last < 4*time.Millisecond {
			return
		}
		last = now
	}
}

// machineLoad is the load average of the last minute.
func machineLoad() string {
	text, _ := os.ReadFile("/proc/loadavg")
	load, _, _ := strings.Cut(string(text), " ")
	return load
}

// A taken is what changes of a control take: milliseconds until the views in the window but that of all cards, until that
// one, and until all views are painted for the last time, and the most processor time by kind of thread. Controls are drawn
// again for choices that become grey, which nobody sees before a list is opened.
type taken struct {
	seen, cards, all []float64
	cost             map[string]time.Duration
}

// changed makes one change, waits until nothing more follows, and enters what it took.
func (p *tab) changed(t *testing.T, id, value string, k *taken) {
	t.Helper()
	before := p.spent(t)
	p.eval(t, `llmprofTimes.drawn = {}; 0`, nil)
	p.set(t, id, value)
	p.rest(t)
	var last struct{ Seen, Cards, All float64 }
	p.eval(t, `(() => { const last = { seen: 0, cards: 0, all: 0 };
		for (const [id, all] of Object.entries(llmprofTimes.drawn)) {
			const box = (document.getElementById(id) ?? document.querySelector("aside")).getBoundingClientRect(), most = Math.max(...all);
			last.all = Math.max(last.all, most);
			const kind = id === "pareto" ? "cards" : "seen";
			if (id !== "controls" && box.bottom > 0 && box.top < innerHeight) last[kind] = Math.max(last[kind], most);
		}
		return last; })()`, &last)
	if k.seen, k.all = append(k.seen, last.Seen), append(k.all, last.All); last.Cards > 0 {
		k.cards = append(k.cards, last.Cards)
	}
	for kind, now := range p.spent(t) {
		k.cost[kind] = max(k.cost[kind], now-before[kind])
	}
}

// told is the median and the largest of times.
func told(all []float64) string {
	if len(all) == 0 {
		return "        none"
	}
	slices.Sort(all)
	return fmt.Sprintf("%4.0f, %4.0f ms", all[len(all)/2], all[len(all)-1])
}

// The times of changes are printed, not held: they are the machine's, and only "go test -v" shows them. A view's time ends with the last
// paint that the change causes in it, so that a view which is refined later counts in full. The test also prints the
// processor time of each change, which a busy machine does not lengthen.
func TestPageTimes(t *testing.T) {
	if !testing.Verbose() {
		t.Skip("it prints times, which go test -v shows")
	}
	p := browseStatic(t, "#model=deepseek-v3&gpu=h200-sxm-141gb&tp=8&batch=1")
	p.wait(t, settled+` && llmprofTimes.answered.gpus`)
	p.rest(t)
	var times struct {
		First    float64
		Answered map[string][]float64
	}
	p.eval(t, `llmprofTimes`, &times)
	t.Logf("load %s: first figures %.0f ms, all cards %.0f ms after the page was opened; processor time %v", machineLoad(), times.First,
		times.Answered["cards"][0], p.spent(t))
	p.cards(t)
	warm := p.warm(t)
	t.Logf("load %s: what changes ask takes %.0f ms at first, and %.0f ms for other lengths after it", machineLoad(), warm[0], warm[1])
	p.rest(t)
	all := map[string]*taken{}
	for _, view := range []string{"verdict", "rates"} {
		p.eval(t, fmt.Sprintf(`document.getElementById(%q).scrollIntoView({ block: "center" }); 0`, view), nil)
		p.rest(t)
		for _, c := range everyControl {
			id, values, _ := strings.Cut(c, ":")
			if all[id] == nil {
				all[id] = &taken{cost: map[string]time.Duration{}}
			}
			for v := range strings.SplitSeq(values, ",") {
				if v == "%" { // a value that no answer is known of
					v = fmt.Sprint(100 + len(all[id].seen))
				}
				p.changed(t, id, v, all[id])
			}
		}
	}
	t.Logf("load %s; milliseconds (median, most) until a change is painted", machineLoad())
	t.Logf("%-24s %-16s %-16s %-16s processor time at most: page, workers, beside them", "control", "in the window", "all cards in it",
		"all views")
	for _, id := range slices.Sorted(maps.Keys(all)) {
		k := all[id]
		t.Logf("%-24s %-16s %-16s %-16s %d, %d, %d ms", id, told(k.seen), told(k.cards), told(k.all), k.cost["main"].Milliseconds(),
			k.cost["workers"].Milliseconds(), k.cost["pool"].Milliseconds())
	}
	for _, view := range []string{"memory", "roofline", "operators", "graph", "latency", "rates", "pareto", "accuracy", "plan"} {
		p.scrolled(t, view)
	}
}

// everyControl is each control with values that it is given in turn.
var everyControl = []string{
	"engine:sglang,", "gpu:b200-sxm-180gb,h200-sxm-141gb", "model:qwen3-30b-a3b,deepseek-v3", "tp:4,8", "ep:8,1", "dp:2,1", "pp:2",
	"micro-batches:2,", "gpus-per-node:4,", "pp:1", "sp:,",
	"expert-skew:0.5,", "weights:bf16,", "kv:fp8,", "act:bf16,", "calibration:,", "batch:%,%", "prompt-len:%,%", "gen-len:%,%",
	"cached-prefix:50,", "max-num-batched-tokens:4096,", "memory-utilization:0.8,",
	"price:3,", "target-ttft:500,", "target-tpot:20,", "target-tps:10,", "target-usd:5,", "load=rate:", "rate:2,3", "prefix-hit-rate:0.5,",
	"prefill-replicas:1,", "load=concurrency:", "concurrency:20,%", "load=batch:", "roof-prefill:", "roof-decode:",
	// For lengths of which no load was asked.
	"prompt-len:%", "load=concurrency:", "load=rate:", "prompt-len:%", "load=concurrency:", "load=batch:",
}

// cards prints how long the first chart of all cards takes in a worker that has just started.
func (p *tab) cards(t *testing.T) {
	t.Helper()
	var took struct {
		Ms       float64
		Of, Some int
	}
	p.content(t, `(async () => { const m = await import("/client.js"), c = new m.Client(60000);
		while (!c.ready) await new Promise((r) => setTimeout(r, 5));
		const gpus = (await (await fetch("catalog.json")).json()).gpus.filter((g) => g.price_usd_per_hour).map((g) => g.key),
			begin = performance.now();
		const a = await c.ask("cards", { do: "sweep", expected: true, flags: { model: "llama3.1-70b", gpu: gpus.join(","), tp: "1,2,4,8",
			batch: "1..1024x4" } });
		return { ms: performance.now() - begin, of: a.data.of, some: a.data.points.length }; })()`, &took)
	t.Logf("load %s: cold, a chart of all cards takes %.0f ms for %d points, of which %d are possible", machineLoad(), took.Ms, took.Of,
		took.Some)
}

// scrolled prints how soon a view out of the window is current when it comes there just after a change.
func (p *tab) scrolled(t *testing.T, view string) {
	t.Helper()
	var late []float64
	for i := range 5 {
		p.eval(t, fmt.Sprintf(`scrollTo(0, %d); 0`, map[bool]int{true: 1 << 20}[view == "memory" || view == "roofline" || view == "operators"]),
			nil)
		p.rest(t)
		p.set(t, "prompt-len", fmt.Sprint(3000+100*len(view)+i))
		time.Sleep(200 * time.Millisecond) // a hand is no faster
		var ms float64
		p.content(t, fmt.Sprintf(`(async () => { llmprofTimes.drawn = {}; const begin = performance.now(), changed = llmprofTimes.change();
			document.getElementById(%q).scrollIntoView({ block: "center" });
			await new Promise((r) => setTimeout(r, 600));
			return Math.max(0, ...(llmprofTimes.drawn[%q] ?? []).map((at) => at + changed - begin)); })()`, view, view), &ms)
		late = append(late, ms)
	}
	t.Logf("load %s: %-9s is current %s after it comes into the window", machineLoad(), view, told(late))
}
