package models

import (
	_ "embed"
	"strings"
	"sync"
)

// harmlessFields say neither how large a matrix is nor what is computed with it: names, tokens,
// training, scales, bases of rotary positions, which experts are chosen, text generation, towers
// that a note names.
var harmlessFields = sync.OnceValue(func() map[string]bool {
	known := make(map[string]bool)
	for field := range strings.FieldsSeq(harmlessText) {
		known[field] = true
	}
	for _, t := range towers() {
		known[t[0]] = true
	}
	for _, path := range wrapped() {
		known[path] = true
	}
	return known
})

//go:embed harmless_fields.txt
var harmlessText string

// idleFields are sizes and switches that some families read and that the code of these families leaves
// aside, or that say in another way what was read.
var idleFields = sync.OnceValue(func() map[string][]string {
	idle := make(map[string][]string)
	for line := range strings.Lines(strings.TrimSpace(idleText)) {
		field, families, _ := strings.Cut(line, ":")
		idle[strings.TrimSpace(field)] = strings.Fields(families)
	}
	return idle
})

//go:embed idle_fields.txt
var idleText string
