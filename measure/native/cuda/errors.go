package cuda

import (
	"errors"
	"fmt"
	"slices"
)

// An Error is what a call to one of the libraries returned, in its own words.
type Error struct {
	Call string // the function that failed
	Code int
	Name string // CUDA_ERROR_...
	Text string
}

// Error names the call, the error and what it means.
func (e *Error) Error() string {
	return fmt.Sprintf("cuda: %s: %s (%d): %s", e.Call, e.Name, e.Code, e.Text)
}

// Fatal reports whether nothing works on the GPU any more after the error: its memory or a
// link failed, it is lost, or a kernel's fault ended the context (cuda.h, CUresult).
func (e *Error) Fatal() bool {
	return slices.Contains([]int{
		214, // ECC_UNCORRECTABLE
		220, // NVLINK_UNCORRECTABLE
		226, // CONTAINED
		700, // ILLEGAL_ADDRESS
		702, // LAUNCH_TIMEOUT
		709, // CONTEXT_IS_DESTROYED
		710, // ASSERT
		714, // HARDWARE_STACK_ERROR
		715, // ILLEGAL_INSTRUCTION
		716, // MISALIGNED_ADDRESS
		717, // INVALID_ADDRESS_SPACE
		718, // INVALID_PC
		719, // LAUNCH_FAILED
		999, // UNKNOWN
	}, e.Code)
}

// refusesImage reports whether the driver does not take machine code: CUDA_ERROR_INVALID_IMAGE,
// _NO_BINARY_FOR_GPU, _INVALID_PTX, _UNSUPPORTED_PTX_VERSION and _INVALID_SOURCE.
func refusesImage(err error) bool {
	var e *Error
	return errors.As(err, &e) && slices.Contains([]int{200, 209, 218, 222, 300}, e.Code)
}

// A DeviceError says that the GPU that was asked for is not there, or is too old.
type DeviceError struct{ Text string }

// Error is the text.
func (e *DeviceError) Error() string { return "cuda: " + e.Text }

// A MemoryError says how much was asked for and how much was free, before
// anything was allocated.
type MemoryError struct {
	What         string
	GPU          string
	Needed, Free uint64
}

// Error gives both amounts and what is short.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("cuda: out of memory: %s needs %.2f GB and %.2f GB of the %s are free: %.2f GB short",
		e.What, float64(e.Needed)/1e9, float64(e.Free)/1e9, e.GPU, (float64(e.Needed)-float64(e.Free))/1e9)
}

// check turns the driver's code into an error.
func (d *driver) check(call string, code int32) error {
	if code == 0 {
		return nil
	}
	e := &Error{Call: call, Code: int(code), Name: "CUresult", Text: "unknown to this driver"}
	var s *byte
	if d.getErrorName(code, &s) == 0 {
		e.Name = goString(s)
	}
	if d.getErrorString(code, &s) == 0 {
		e.Text = goString(s)
	}
	return e
}

// InTurn does one step after the other, and returns the error of the first that fails.
func InTurn(steps ...func() error) error {
	for _, do := range steps {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}
