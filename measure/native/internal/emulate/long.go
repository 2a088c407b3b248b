//go:build engine

package emulate

// longCases says that tests run all cases, which take some ten minutes of two processors.
const longCases = true
