// Command wasm is the program of the page: it hands requests of the page's worker to
// package page.
package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"syscall/js"
	"time"

	"llmprof/cmd/llmprof/internal/page"
)

func main() {
	debug.SetGCPercent(400)
	p, rest := page.New(), time.AfterFunc(pause, collector())
	p.Progress = func(done, of int) { js.Global().Call("llmprofProgress", done, of) }
	js.Global().Set("llmprof", js.FuncOf(func(_ js.Value, args []js.Value) any {
		defer rest.Reset(pause)
		return string(p.Handle(context.Background(), []byte(args[0].String())))
	}))
	js.Global().Call("llmprofReady")
	select {}
}

const (
	pause  = 100 * time.Millisecond // without a request, after which garbage is collected
	litter = 8 << 20                // bytes allocated since, of which it is worth while
)

// collector collects garbage while nothing is asked: within a request it would lengthen a change by up to 40 ms.
func collector() func() {
	var last, now runtime.MemStats
	return func() {
		if runtime.ReadMemStats(&now); now.TotalAlloc-last.TotalAlloc > litter {
			runtime.GC()
			runtime.ReadMemStats(&last)
		}
	}
}
