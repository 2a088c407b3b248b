// Package cuda opens NVIDIA's libraries at run time and gives Go the part of
// them that an inference engine needs: the driver (libcuda), the run-time
// compiler (NVRTC) and GEMMs (cuBLASLt). Building it needs no CUDA
// and no C compiler; running it needs the libraries, and an error says which
// one is missing and where it was searched.
//
// A Device is current on one thread of the operating system: the goroutine that
// calls Open is locked to its thread until Close, and must be the one that uses
// the Device and everything made with it.
//
// Names and values of constants are those of cuda.h, nvrtc.h and cublasLt.h of
// CUDA 12 and 13, in which they are the same.
package cuda
