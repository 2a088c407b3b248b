// Package roofline holds every equation of time, once: how long a kernel takes
// on a machine, after Williams, Waterman and Patterson, "Roofline" (CACM 52(4),
// 2009).
//
//	Work + Shape -> Kernel -> Law (of the kernel's Class) -> []Term -> Times -> Cost
//
//	machine := roofline.NewMachine(&peaks, &constants)
//	machine.Price(&cost, &kernel) // cost.Time, cost.Bound
//
// A Law is a list of terms. A Term is the time that some of the kernel's work
// takes on one resource at the peak of the data sheet, times a constant that says
// what is reached in practice: divided by it where the constant is a share of the
// peak, multiplied by it where it is a time or a count. The terms of a resource
// add up; the resources hide each other, arithmetic and memory traffic wholly or in part.
//
// Estimating, fitting the constants to micro-benchmarks, and replacing a constant
// by its ideal all evaluate these terms; a calibration file writes Equation above
// the constants of each law. A new kind of kernel is one law in a file of its own;
// a new constant is one entry of the list in constants.go.
//
// What may change: constants and kernel classes are added, and values of constants follow what is measured; Machine, Work, Kernel and Cost
// stay.
package roofline
