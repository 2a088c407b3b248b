package engine

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"llmprof/measure/engine/xid"
)

// gpuErrors matches what CUDA, torch and NCCL say of a GPU on which nothing works any more.
var gpuErrors = regexp.MustCompile(`(?i)CUDA_ERROR_|CUDA error|unhandled cuda error|fallen off the bus|GPU is lost|uncorrectable ECC`)

// gpuReport says which GPUs a worker had, why the driver says that one failed, and where to
// look. The kernel's log is that of this machine, as the worker is.
func (w *Worker) gpuReport() string {
	var had []string
	for _, d := range w.devices {
		text := d.Name
		if d.UUID != "" {
			text += " (" + d.UUID + ")"
		}
		had = append(had, text)
	}
	report := xid.Report(time.Since(w.started))
	if len(had) == 0 {
		return report
	}
	return fmt.Sprintf("it ran on %s: %s", strings.Join(had, ", "), report)
}

// crashed is the error of a worker that ended unasked.
func (w *Worker) crashed(during string) *Crash {
	c := &Crash{Engine: w.process.name, State: w.process.How(), During: during, Log: w.process.Log()}
	if gpuErrors.MatchString(strings.Join(c.Log, "\n")) {
		c.GPU = w.gpuReport()
	}
	return c
}
