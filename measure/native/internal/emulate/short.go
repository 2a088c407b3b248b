//go:build !engine

package emulate

// longCases says that tests run all cases; without the build tag engine they run one of each family of kernels.
const longCases = false
