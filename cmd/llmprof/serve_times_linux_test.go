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

// The times of changes are printed, not held: they are the machine's. Beside the milliseconds until each
// answer is drawn stands the processor time that the change took, which a busy machine does not lengthen.
func TestPageTimes(t *testing.T) {
	p := browse(t, "#model=deepseek-v3&gpu=h200-sxm-141gb&tp=8&batch=1", &serveOrder{})
	p.wait(t, settled+` && llmprofTimes.views.gpus`)
	p.rest(t)
	type views map[string][]float64
	var times struct {
		First float64
		Views views
	}
	p.eval(t, `llmprofTimes`, &times)
	t.Logf("load %s: first figures %.0f ms, all cards %.0f ms after the page was opened; processor time %v", machineLoad(), times.First, times.Views["cards"][0], p.spent(t))
	changes := [][2]string{{"engine", "sglang"}, {"engine", ""}, {"gpu", "b200-sxm-180gb"}, {"gpu", "h200-sxm-141gb"}, {"tp", "16"}, {"ep", "16"}, {"ep", "1"}, {"tp", "8"}, {"kv", "fp8"}, {"kv", ""}, {"price", "3"}}
	for i := range 10 {
		changes = append(changes, [2]string{"batch", fmt.Sprint(10 + 3*i)}, [2]string{"prompt-len", fmt.Sprint(2000 + i)}, [2]string{"gen-len", fmt.Sprint(300 + i)})
	}
	changes = append(changes, [2]string{"load=rate", ""}, [2]string{"rate", "2"}, [2]string{"rate", "3"}, [2]string{"load=concurrency", ""}, [2]string{"concurrency", "20"}, [2]string{"concurrency", "21"})
	took, cost := views{}, map[string][3]time.Duration{}
	for _, c := range changes {
		p.eval(t, `llmprofTimes.views = {}; 0`, nil)
		before := p.spent(t)
		p.set(t, c[0], c[1])
		p.rest(t)
		after := p.spent(t)
		var now views
		p.eval(t, `llmprofTimes.views`, &now)
		for kind, list := range now {
			took[kind] = append(took[kind], list...)
		}
		name, _, _ := strings.Cut(c[0], "=")
		sum := cost[name]
		for i, kind := range []string{"main", "workers", "pool"} {
			sum[i] = max(sum[i], after[kind]-before[kind])
		}
		cost[name] = sum
	}
	for _, kind := range slices.Sorted(maps.Keys(took)) {
		list := slices.Sorted(slices.Values(took[kind]))
		t.Logf("load %s: %-9s %3.0f ms in the median of %d changes, %.0f at most", machineLoad(), kind, list[len(list)/2], len(list), list[len(list)-1])
	}
	for _, name := range slices.Sorted(maps.Keys(cost)) {
		c := cost[name]
		t.Logf("processor time of a change of %-12s at most: page %3d ms, workers %3d ms, beside them %3d ms", name, c[0].Milliseconds(), c[1].Milliseconds(), c[2].Milliseconds())
	}
}
