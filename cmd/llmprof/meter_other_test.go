//go:build !unix

package main

// asMeter and metered are for systems that say how much memory a process took.
const asMeter = "LLMPROF_TEST_METER"

func metered(string) int { return 99 }
