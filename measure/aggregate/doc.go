// Package aggregate puts together what the processes of an experiment measured,
// each in a result file of its own, after they have all ended.
//
// Energies, tokens and FLOPs are summed, throughput too where the processes ran
// at the same time; percentiles are taken over the samples of all processes,
// never over percentiles. What would be wrong is null, and Reasons says why: a
// sum of energies that two processes claim of one GPU, a rate of processes that
// ran one after the other.
//
// The groups with the names of LLM Energy Measure (inference_metrics,
// energy_metrics, compute_metrics, extended_metrics, ...) keep its names and its
// units; of the names that AIPerf has, the key adds the unit. docs/results.md
// lists each metric with its formula and the file here that it is computed in.
package aggregate
