package worker

import (
	"errors"
	"io/fs"

	"llmprof/measure/engine"
	"llmprof/measure/engine/native"
	"llmprof/measure/engine/native/cuda"
	"llmprof/models/safetensors"
)

// classify makes a failure of the protocol of any error. One of the GPU's own
// ends the worker: after most of them no call works any more.
func classify(err error) *engine.Failure {
	if known, ok := errors.AsType[*engine.Failure](err); ok {
		return known
	}
	kind := kindOf(err)
	return &engine.Failure{Kind: kind, Message: err.Error(), Fatal: kind == engine.Internal || kind == engine.GPUFailed}
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
		return engine.Unsupported
	case errors.As(err, &library), errors.As(err, &device):
		return engine.Missing
	case errors.As(err, &memory):
		return engine.OutOfMemory
	case errors.As(err, &call):
		switch {
		case call.Name == "CUDA_ERROR_OUT_OF_MEMORY":
			return engine.OutOfMemory
		case call.Call == "cuInit":
			return engine.Missing
		case call.Fatal():
			return engine.GPUFailed
		}
	case errors.Is(err, fs.ErrNotExist):
		return engine.NotFound
	case errors.As(err, &weights), errors.As(err, &numbers):
		return engine.Invalid
	}
	return engine.Internal
}
