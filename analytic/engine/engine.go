// Package engine has the inference engines that can be predicted, one file each: which
// operators their kernels fuse, of which class each kernel is, and what the host adds.
// Package measure/engine runs engines.
package engine

import (
	"fmt"
	"strings"

	"llmprof/analytic"
)

// all lists the engines in the order of menus.
func all() []analytic.Engine {
	return []analytic.Engine{
		&vllm, &sglang, &tensorRT, &llamaCPP, &transformers, &transformersGraph, &native, &edge, &elana, &vllm2024, &tensorRT2024,
	}
}

// Names lists the engines that can be predicted.
func Names() []string {
	var names []string
	for _, e := range all() {
		names = append(names, e.Profile().Name)
	}
	return names
}

// aliases are further names of engines.
var aliases = map[string]string{
	"trt-llm": "tensorrt-llm", "trtllm": "tensorrt-llm", "trt": "tensorrt-llm", "tensorrt": "tensorrt-llm", "hf": "transformers", "huggingface": "transformers",
	"llamacpp": "llama.cpp", "llama-cpp": "llama.cpp", "ollama": "llama.cpp", "gguf": "llama.cpp",
}

// Parse finds an engine by name or alias, ignoring case. A release may follow, as in vllm@0.19.0.
func Parse(name string) (analytic.Engine, error) {
	if name, release, given := strings.Cut(name, "@"); given {
		e, err := Parse(name)
		if err != nil {
			return nil, err
		}
		return AtRelease(e, release)
	}
	name = strings.ReplaceAll(name, "_", "-") // as in the name of the Python package
	if full, ok := aliases[strings.ToLower(name)]; ok {
		name = full
	}
	for _, e := range all() {
		if strings.EqualFold(e.Profile().Name, name) {
			return e, nil
		}
	}
	return nil, fmt.Errorf("unknown engine %.40q; known are %s", name, strings.Join(Names(), ", "))
}

// ParseMode finds an engine by name and by how it ran, as a graph.
func ParseMode(name, mode string) (analytic.Engine, error) {
	if e, err := Parse(name + "-" + mode); mode != "" && err == nil {
		return e, nil
	}
	return Parse(name)
}
