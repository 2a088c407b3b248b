// Package validate holds predictions against observations.
//
//	Observation -> Case -> Row -> Summary
//
// An Observation is one figure that somebody measured: a time or an energy, of a
// model on a GPU by an engine, with what is known of its noise and where it comes
// from. Embedded are those that come with the program; Reduce makes them from a
// result of package measure, Parse from a CSV file.
//
// Score matches each with an estimate by the same steps as "llmprof estimate"
// takes, and says of every one that cannot be matched why not. Summarize tells
// how far predictions are off: signed bias, median, mean and 90th percentile of
// the error, and the share of observations inside of the predicted interval.
//
// Nothing here is fitted. Observations that a constant of the theory was fitted
// on, before or elsewhere, are known by name (see provenance.go) and scored separately.
//
// What may change: columns, sources and readers are added; Observation, Scorer and Score stay.
package validate
