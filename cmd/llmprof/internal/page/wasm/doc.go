//go:build !js

// Command wasm is the program of the page, and runs nowhere else.
package main

func main() { panic("the page's program is built with GOOS=js GOARCH=wasm: run make web") }
