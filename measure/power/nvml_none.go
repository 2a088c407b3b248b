//go:build !cgo || !linux

package power

import (
	"context"
	"fmt"
)

// openNVML needs cgo, which this program was built without.
func openNVML(context.Context, *Options) (*driver, error) {
	return nil, fmt.Errorf("%w: this llmprof was built without cgo, which NVML needs", errNoDriver)
}
