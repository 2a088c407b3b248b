// Palette makes pictures of documents small: each PNG that it is given is written anew in its 256 commonest colours.
package main

import (
	"log"
	"os"

	"llmprof/internal/atomicfile"
	"llmprof/internal/testkit"
)

func main() {
	for _, file := range os.Args[1:] {
		picture, err := os.ReadFile(file)
		if err == nil {
			picture, err = testkit.Paletted(picture)
		}
		if err == nil {
			err = atomicfile.WriteFile(file, picture, 0o644)
		}
		if err != nil {
			log.Fatalf("%s: %v", file, err) //nolint:forbidigo // this is a program
		}
	}
}
