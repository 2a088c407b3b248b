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

// rest waits until the page does nothing more.
func (p *tab) rest(t *testing.T) {
	t.Helper()
	last := time.Duration(-1)
	for range 600 {
		now := time.Duration(0)
		for _, v := range p.spent(t) {
			now += v
		}
		if last >= 0 && now-last < 4*time.Millisecond {
			return
		}
		last = now
		time.Sleep(150 * time.Millisecond)
	}
}

// machineLoad is the load average of the last minute.
func machineLoad() string {
	text, _ := os.ReadFile("/proc/loadavg")
	load, _, _ := strings.Cut(string(text), " ")
	return load
}

// A viewTimes is, by view, the milliseconds from a change until the view is painted for the last time.
type viewTimes map[string][]float64

// changed makes one change, waits until nothing more follows, and notes when each view was painted last: on are the
// views that the window has a part of, off the others.
func (p *tab) changed(t *testing.T, id, value string, on, off viewTimes) {
	t.Helper()
	p.eval(t, `llmprofTimes.drawn = {}; 0`, nil)
	p.set(t, id, value)
	p.rest(t)
	var painted map[string]struct {
		Last float64
		Seen bool
	}
	p.eval(t, `Object.fromEntries(Object.entries(llmprofTimes.drawn).map(([id, all]) => {
		const box = (document.getElementById(id) ?? document.querySelector("aside")).getBoundingClientRect();
		return [id, { last: Math.max(...all), seen: box.bottom > 0 && box.top < innerHeight }];
	}))`, &painted)
	for id, v := range painted {
		if v.Seen {
			on[id] = append(on[id], v.Last)
		} else {
			off[id] = append(off[id], v.Last)
		}
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

// The times of changes are printed, not held: they are the machine's. A view's time ends with the last
// paint that the change causes in it, so that a view which is refined later counts in full. The test also prints the
// processor time of each change, which a busy machine does not lengthen.
func TestPageTimes(t *testing.T) {
	p := browse(t, "#model=deepseek-v3&gpu=h200-sxm-141gb&tp=8&batch=1", &serveOrder{})
	p.wait(t, settled+` && llmprofTimes.views.gpus`)
	p.rest(t)
	var times struct {
		First float64
		Views viewTimes
	}
	p.eval(t, `llmprofTimes`, &times)
	t.Logf("load %s: first figures %.0f ms, all cards %.0f ms after the page was opened; processor time %v", machineLoad(), times.First, times.Views["cards"][0], p.spent(t))
	changes := [][2]string{{"engine", "sglang"}, {"engine", ""}, {"gpu", "b200-sxm-180gb"}, {"gpu", "h200-sxm-141gb"}, {"tp", "16"}, {"ep", "16"}, {"ep", "1"}, {"tp", "8"}, {"kv", "fp8"}, {"kv", ""}, {"price", "3"}, {"price", ""}, {"target-ttft", "500"}, {"target-ttft", ""}}
	for i := range 3 {
		changes = append(changes, [2]string{"batch", "%"}, [2]string{"prompt-len", "%"}, [2]string{"gen-len", "%"}, [2]string{"price", fmt.Sprint(3 + i)})
	}
	changes = append(changes, [2]string{"load=rate", ""}, [2]string{"rate", "2"}, [2]string{"rate", "3"}, [2]string{"load=concurrency", ""}, [2]string{"concurrency", "20"}, [2]string{"concurrency", "21"}, [2]string{"load=batch", ""})
	on, off, cost := viewTimes{}, viewTimes{}, map[string][3]time.Duration{}
	fresh := 0
	for _, view := range []string{"verdict", "graph", "rates", "plan"} {
		p.eval(t, fmt.Sprintf(`document.getElementById(%q).scrollIntoView({ block: "center" }); 0`, view), nil)
		p.rest(t)
		for _, c := range changes {
			name, _, _ := strings.Cut(c[0], "=")
			if c[1] == "%" { // a value that no answer is known of
				fresh++
				c[1] = fmt.Sprint(1000 + fresh)
			}
			before := p.spent(t)
			p.changed(t, c[0], c[1], on, off)
			after := p.spent(t)
			sum := cost[name]
			for i, kind := range []string{"main", "workers", "pool"} {
				sum[i] = max(sum[i], after[kind]-before[kind])
			}
			cost[name] = sum
		}
	}
	for _, id := range slices.Sorted(maps.Keys(on)) {
		t.Logf("load %s: %-9s final after (median, most) %s in %3d changes in the window; %s in %3d out of it", machineLoad(), id, told(on[id]), len(on[id]), told(off[id]), len(off[id]))
	}
	for _, name := range slices.Sorted(maps.Keys(cost)) {
		c := cost[name]
		t.Logf("processor time of a change of %-12s at most: page %3d ms, workers %3d ms, beside them %3d ms", name, c[0].Milliseconds(), c[1].Milliseconds(), c[2].Milliseconds())
	}
}
