// Package plots draws what package analytic works out: the roofline of a case,
// what its parameters, work, time and energy are made of, its memory over the
// batch, sweeps of TTFT and TPOT, the model as a graph of its operators, and
// what was observed beside what was predicted.
//
// Each function takes reports and returns a Figure, which knows how to write
// itself as SVG, PNG or PDF. Nothing here reads or writes files. The same figure
// is drawn by the same strokes whatever the format, and the SVG of the same
// report is the same to the byte.
//
// All text is horizontal, axis titles included: those of vertical axes stand
// above them. All axes that show quantities spanning decades are logarithmic.
//
// What may change: charts are added, and drawings look otherwise; Figure and the functions that return one stay.
package plots
