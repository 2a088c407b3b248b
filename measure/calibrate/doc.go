// Package calibrate measures what a GPU and an engine reach in practice, with
// micro-benchmarks of single operators, and fits the constants of a calibration
// to them.
//
//	Plan -> []Point -> Bench -> []Row (JSON Lines) -> Fit -> hardware.CalibrationFile
//
// No end-to-end time takes part: what "llmprof validate" scores is never fitted.
package calibrate
