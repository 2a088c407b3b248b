// Package experiment reads what is to be measured, and runs it.
//
// A file in TOML, YAML or JSON names settings, which are the flags of "llmprof
// measure" with "_" for "-". It may start from other files (extends), vary
// settings over a grid, list further points, exclude some, and repeat them all:
//
//	name = "llama-batches"
//	extends = "h200.toml"
//	model = "llama3.1-8b"
//	cycles = 3
//	order = "interleaved"
//	[grid]
//	batch = [1, 8, 32]
//	prompt_len = [128, 1024]
//	[[exclude]]
//	batch = 32
//	prompt_len = 1024
//
// What was measured is in the result files of a folder, and nowhere else: a run
// that is started again takes up what they lack.
package experiment
