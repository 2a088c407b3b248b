// Command wasm is the program of the page: it hands requests of the page's worker to
// package page.
package main

import (
	"context"
	"runtime/debug"
	"syscall/js"

	"llmprof/cmd/llmprof/internal/page"
)

func main() {
	debug.SetGCPercent(400)
	p := page.New()
	p.Progress = func(done, of int) { js.Global().Call("llmprofProgress", done, of) }
	js.Global().Set("llmprof", js.FuncOf(func(_ js.Value, args []js.Value) any {
		return string(p.Handle(context.Background(), []byte(args[0].String())))
	}))
	js.Global().Call("llmprofReady")
	select {}
}
