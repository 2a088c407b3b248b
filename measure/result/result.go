// Package result is the file that a measurement leaves: one process, one
// configuration, whole or absent. Its form is the JSON Schema
// schema/measure.v1.json; a value that was not measured is null, and Reasons
// says why.
package result

import "time"

// Schema names the form of a result.
const Schema = "llmprof.measure/v1"

// A Result is what one process measured of one configuration.
type Result struct {
	Schema      string      `json:"schema"`
	ID          string      `json:"id"` // identifier of the experiment; its processes share it
	Process     int         `json:"process"`
	Processes   int         `json:"processes"`
	Cycle       int         `json:"cycle"` // number of the repeat of the configuration, from 0
	Started     time.Time   `json:"started"`
	Ended       time.Time   `json:"ended"`
	Model       Model       `json:"model"`
	Engine      Engine      `json:"engine"`
	Parallelism Parallelism `json:"parallelism"`
	Workload    Workload    `json:"workload"`

	TTFT       *Times   `json:"ttft_s"`
	TPOT       *Times   `json:"tpot_s"` // one value a pass: (TTLT - TTFT) / (generated - 1)
	TTLT       *Times   `json:"ttlt_s"`
	StepTime   *Times   `json:"step_s"` // every decode step
	Throughput *Rates   `json:"throughput_tok_s"`
	Serving    *Serving `json:"serving"` // measurement of a server; null of a local engine

	Operators *Operators `json:"operators" late:"true"` // each timed by itself

	Outputs [][]int `json:"outputs,omitempty"` // tokens generated for each sequence of the last request; empty unless they were wanted

	Sizes  *Sizes  `json:"sizes_bytes"`
	Energy *Energy `json:"energy"`

	Closure    []Closure         `json:"closure"`
	Machine    Machine           `json:"machine"`
	Conditions []Condition       `json:"conditions"`
	Meter      *Meter            `json:"meter"`
	Provenance Provenance        `json:"provenance"`
	Reasons    map[string]string `json:"reasons"`  // why a key is null
	Marks      []string          `json:"marks"`    // reasons to doubt the figures: "contaminated", "throttled", ...
	Warnings   []string          `json:"warnings"` // marks and lesser remarks, in sentences
}
