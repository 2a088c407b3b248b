// Package engine has the inference engines that can be predicted, one file each: which
// operators their kernels fuse, of which class each kernel is, what the host adds, how they schedule, and how they are started.
// Package measure runs engines.
//
//	e, err := engine.Parse("vllm@0.19.0")
package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/internal/spelling"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// An Engine is an inference engine as data: what it adds to its kernels, and the functions that lower operators to kernels.
type Engine struct {
	profile    analytic.Profile
	title      string // name as its authors write it
	mode       string // how it runs where another engine of the title runs otherwise
	releases   releases
	options    map[string]func(*Engine)                                  // what its servers may be started with, by name
	option     []string                                                  // The options that this engine has.
	captures   func(e *Engine)                                           // It changes what else depends on the CUDA graphs; nil for nothing.
	graphs     Graphs                                                    // the CUDA graphs that its servers are told to capture
	schedulers []sized                                                   // its schedulers, the default first
	resolve    func(*start, *Deployment, *analytic.Predictor) bool       // its own conditions at start-up; nil where none are known
	templates  bool                                                      // Dynamo and KServe have templates of its servers
	launch     func(*Deployment) *args                                   // the command that starts a server; nil where none is known
	images     map[string]string                                         // container images by vendor of GPUs, "" for other vendors
	note       func(*models.Model, *operator.Parallelism) []unit.Warning // what is to be said of a split; nil for nothing

	lower   func(*Engine, *analytic.Lowering) // makes the kernels of a part of a step
	kernels kernels                           // lowers the operators of each type; nil for one kernel of each
	kinds   [operator.Collective + 1]lowering // lowers those of each kind that kernels leaves out

	decodes  captured                              // CUDA graphs of decode steps
	prompts  captured                              // piecewise CUDA graphs of prompts, without attention
	overlaps float64                               // most tokens of a decode step whose shared experts run in a stream beside the routed ones
	layout   func(*analytic.Lowering)              // changes the layout of experts; nil for none
	tile     func(*hardware.GPU, *roofline.Kernel) // sets the tile of a GEMM; nil where a library chooses
}

// Profile is what the engine adds to its kernels.
func (e *Engine) Profile() *analytic.Profile { return &e.profile }

// Lower makes the kernels of a part of a step.
func (e *Engine) Lower(l *analytic.Lowering) {
	e.lower(e, l)
	if off := l.Step.Offload; off != nil && off.Read {
		readWeights(l)
	}
}

// all lists the engines in the order of menus.
func all() []*Engine {
	return []*Engine{
		&vllm, &sglang, &tensorRT, &llamaCPP, &transformers, &transformersGraph, &native, &edge, &elana, &vllm2024, &tensorRT2024,
	}
}

// Names lists the engines that can be predicted.
func Names() []string { return names(func(*Engine) bool { return true }) }

func names(of func(*Engine) bool) (list []string) {
	for _, e := range all() {
		if of(e) {
			list = append(list, e.profile.Name)
		}
	}
	return list
}

// Parse finds an engine by name or alias, ignoring case. A release may follow, as in vllm@0.19.0, and then an option, as +deepep.
func Parse(name string) (analytic.Engine, error) {
	if at := strings.LastIndex(name, "+"); at > 0 && isOption(strings.ToLower(name[at+1:])) {
		e, err := Parse(name[:at])
		if err != nil {
			return nil, err
		}
		return With(e, strings.ToLower(name[at+1:]))
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
		known := append([]string{e.profile.Name}, e.profile.Aliases...)
		if slices.ContainsFunc(known, func(n string) bool { return strings.EqualFold(n, name) }) {
			return e, nil
		}
	}
	if slices.Contains(ktransformers, strings.ToLower(name)) {
		return nil, fmt.Errorf("KTransformers is not predicted: rates of its kernels for the CPU, which differ by --kt-method, are not " +
			"published, and a part of each layer's experts runs on the GPU beside them; llama.cpp with --n-cpu-moe is what comes nearest")
	}
	return nil, fmt.Errorf("unknown engine %.40q; %s", name, spelling.Hint(name, Names()))
}

// ktransformers are names of KTransformers and of its packages. SGLang hands it the experts of a layer that --kt-num-gpu-experts leaves,
// by a callback within the CUDA graph, and runs the others meanwhile (kt-kernel/python/experts_base.py at commit 95009ea).
var ktransformers = []string{"ktransformers", "kt-kernel", "sglang-kt"}

// options are what may end an engine's name after a +, and make it the engine with that option.
var options = []string{deepEP, flashInferGEMM, gdnTriton, noGraphs}

// isOption reports whether a word is an option of some engine.
func isOption(word string) bool { return slices.Contains(options, word) }

// With is an engine with a further option that its servers were started with, as "deepep".
func With(from analytic.Engine, option string) (analytic.Engine, error) {
	e, name := from.(*Engine), from.Profile().Name
	switch apply := e.options[option]; {
	case !isOption(option):
		return nil, fmt.Errorf("unknown option %.40q of %s; options are %s", option, name, strings.Join(options, ", "))
	case apply == nil:
		return nil, fmt.Errorf("%s+%s: only %s have the option", name, option,
			strings.Join(names(func(e *Engine) bool { return e.options[option] != nil }), ", "))
	case e.has(option):
		return nil, fmt.Errorf("%s+%s: it has the option already", name, option)
	default:
		with := *e
		with.option, with.profile.Name = append(slices.Clone(e.option), option), name+"+"+option
		apply(&with)
		return &with, nil
	}
}

// has reports whether an engine has an option.
func (e *Engine) has(option string) bool { return slices.Contains(e.option, option) }

// ParseMode finds an engine by name and by how it ran, as a graph.
func ParseMode(name, mode string) (analytic.Engine, error) {
	if mode != "" {
		if e, err := Parse(name + "-" + mode); err == nil {
			return e, nil
		}
	}
	return Parse(name)
}

// Title is the name of an engine as its authors write it.
func Title(name string) string {
	if e, err := Parse(name); err == nil {
		return cmp.Or(e.(*Engine).title, name)
	}
	return name
}

// WithMode is the name of an engine, with the mode that it runs in where another of its title has another mode.
func WithMode(name string) string {
	if e, err := Parse(name); err == nil && e.(*Engine).mode != "" {
		return e.(*Engine).title + " " + e.(*Engine).mode
	}
	return name
}
