package process

import (
	"errors"
	"io/fs"

	"llmprof/measure/native"
	"llmprof/measure/native/cuda"
	"llmprof/measure/worker"
	"llmprof/models/safetensors"
)

// classify makes a failure of the protocol of any error. One of the GPU's own
// ends the worker: after most of them no call works any more.
func classify(err error) *worker.Failure {
	if known, ok := errors.AsType[*worker.Failure](err); ok {
		return known
	}
	kind := kindOf(err)
	return &worker.Failure{Kind: kind, Message: err.Error(), Fatal: kind == worker.Internal || kind == worker.GPUFailed}
}

func kindOf(err error) string {
	var (
		unsupported *native.UnsupportedError
		format      *safetensors.FormatError
		weights     *native.WeightsError
		numbers     *native.NumbersError
		library     *cuda.MissingError
		device      *cuda.DeviceError
		memory      *cuda.MemoryError
		call        *cuda.Error
	)
	switch {
	case errors.As(err, &unsupported), errors.As(err, &format):
		return worker.Unsupported
	case errors.As(err, &library), errors.As(err, &device):
		return worker.Missing
	case errors.As(err, &memory):
		return worker.OutOfMemory
	case errors.As(err, &call):
		switch {
		case call.Name == "CUDA_ERROR_OUT_OF_MEMORY":
			return worker.OutOfMemory
		case call.Call == "cuInit":
			return worker.Missing
		case call.Fatal():
			return worker.GPUFailed
		}
	case errors.Is(err, fs.ErrNotExist):
		return worker.NotFound
	case errors.As(err, &weights), errors.As(err, &numbers):
		return worker.Invalid
	}
	return worker.Internal
}
