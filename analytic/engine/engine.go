// Package engine has the inference engines that can be predicted, one file each: which
// operators their kernels fuse, of which class each kernel is, and what the host adds.
// Package measure runs engines.
package engine

import (
	"fmt"
	"slices"
	"strings"

	"llmprof/analytic"
	"llmprof/internal/spelling"
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

// Parse finds an engine by name or alias, ignoring case. A release may follow, as in vllm@0.19.0, and then an option, as +deepep.
func Parse(name string) (analytic.Engine, error) {
	for option, with := range options() {
		if at := len(name) - len(option); at > 0 && strings.EqualFold(name[at:], option) {
			e, err := Parse(name[:at])
			if err != nil {
				return nil, err
			}
			return with(e)
		}
	}
	if name, release, given := strings.Cut(name, "@"); given {
		e, err := Parse(name)
		if err != nil {
			return nil, err
		}
		return AtRelease(e, release)
	}
	name = strings.ReplaceAll(name, "_", "-") // as in the name of the Python package
	for _, e := range all() {
		if p := e.Profile(); slices.ContainsFunc(append([]string{p.Name}, p.Aliases...),
			func(n string) bool { return strings.EqualFold(n, name) }) {
			return e, nil
		}
	}
	return nil, fmt.Errorf("unknown engine %.40q; %s", name, spelling.Hint(name, Names()))
}

// options are what may end an engine's name, and make it the engine with that option.
func options() map[string]func(analytic.Engine) (analytic.Engine, error) {
	return map[string]func(analytic.Engine) (analytic.Engine, error){deepEP: withDeepEP, flashInferGEMM: withFlashInferGEMM}
}

// With is an engine with an option that its servers were started with, as "deepep".
func With(e analytic.Engine, option string) (analytic.Engine, error) {
	with, ok := options()["+"+option]
	if !ok {
		return nil, fmt.Errorf("unknown option %.40q of %s; options are deepep and flashinfer-gemm", option, e.Profile().Name)
	}
	return with(e)
}

// ParseMode finds an engine by name and by how it ran, as a graph.
func ParseMode(name, mode string) (analytic.Engine, error) {
	if mode != "" {
		if e, err := Parse(name + "-" + mode); err == nil {
			return e, nil
		}
	}
	return Parse(name)
}
