package main

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/measure/experiment"
)

// namedModel is the flag of measurements that the page asks for, which are of no file.
const namedModel = "named-model"

// flagOf is the flag that sets a key of experiment files; "" for a key that has none.
func flagOf(key string) string {
	flag, _ := settings.FlagOf(&experiment.Point{}, key)
	return flag
}

// compound matches words that can be keys and are no words of a sentence.
var compound = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b[a-z]+(_[a-z]+)+\b`) })

// engineSetting matches the engine as files set it.
var engineSetting = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`engine = "(\w+)"`) })

// inFlags is an error about the settings of a point that names the flags which set them.
func inFlags(err error) error {
	problems := experiment.Problems{}
	if !errors.As(err, &problems) {
		return err
	}
	lines := make([]string, len(problems))
	for i, p := range problems {
		if flag := flagOf(p.Key); flag != "" {
			p.Key = "--" + flag
		}
		text := engineSetting().ReplaceAllString(p.Text, "--engine $1")
		lines[i] = p.Key + ": " + compound().ReplaceAllStringFunc(text, func(word string) string {
			if flag := flagOf(word); flag != "" && slices.Contains(experiment.Settings(), word) {
				return "--" + flag
			}
			return word
		})
	}
	return errors.New(strings.Join(lines, "\n"))
}

// flags are those of a measurement, the engine first: the others depend on it.
func (t *measureRun) flags(cmd *cobra.Command) {
	cli.Define(cmd, "Engine and model", t.engineFlags)
	cli.Define(cmd, cli.Workload, t.workloadFlags)
	cli.Define(cmd, "What is measured", t.figureFlags)
	cli.Define(cmd, "Where it runs", t.placementFlags)
	cli.Define(cmd, "Server (--engine openai)", t.serverFlags)
	cli.Define(cmd, "What the server runs", func(f *pflag.FlagSet) { settings.Bind(f, &t.point, "Served") })
	cli.Define(cmd, cli.Output, func(*pflag.FlagSet) { t.outputFlags(cmd) })
	cli.Rare(cmd, "attention", "graph", "compile", "device", "python", "cuda-libs", "trust-remote-code", "offline",
		"prompts", "seed", "elana", "save-outputs", "carbon-intensity", "carbon-region", "warmup",
		"replicas", "nodes", "rdzv", "node", "shared", "api", "temperature", "max-failures", "timeout", "connections", "records", "speed",
		"trace-unit", "trace-block",
		"served-model", "served-weights", "served-kv", "served-tp", "binary", "color")
}

// engineFlags are about the engine and the model that it runs.
func (t *measureRun) engineFlags(f *pflag.FlagSet) {
	settings.Bind(f, &t.point, "Runtime", "Subject")
	f.Lookup("engine").DefValue = ""
	f.BoolVar(&t.eager, "eager", false, "decode without a graph, the cache growing")
	f.BoolVar(&t.offline, "offline", false, "never use the network")
	f.BoolVar(&t.named, namedModel, false, "take the model for a built-in one or a hub id, whatever files there are")
	_ = f.MarkHidden(namedModel)
}

func (t *measureRun) workloadFlags(f *pflag.FlagSet) {
	p := &t.point
	f.IntVarP(&p.Batch, "batch", "b", p.Batch, "`sequences` that run together")
	f.Var(lensFlag(&p.PromptLen, &p.PromptLens), "prompt-len", "`tokens` of each prompt; of a server's also 64..512")
	f.Var(lensFlag(&p.GenLen, &p.GenLens), "gen-len", "all `tokens` of an answer; likewise")
	settings.Bind(f, p, "Workload")
}

// figureFlags are about what is looked at, and how often.
func (t *measureRun) figureFlags(f *pflag.FlagSet) {
	p := &t.point
	p.TTFT, p.TPOT, p.TTLT, p.Size, p.Energy = false, false, false, false, false // all of them where none is given
	settings.Bind(f, p, "Protocol")
}

func (t *measureRun) placementFlags(f *pflag.FlagSet) {
	settings.Bind(f, &t.point, "Placement")
	f.IntVar(&t.node, "node", 0, "`number` of this host, of several: 0 leads and reports")
	f.BoolVar(&t.shared, "shared", false, "measure although others use the GPUs")
}

func (t *measureRun) serverFlags(f *pflag.FlagSet) {
	settings.Bind(f, &t.point, "Client")
	f.IntSliceVar(&t.concurrencies, "concurrency", nil, "`requests` at a time, or several, as 1,8,64")
	f.Var(settings.RatesFlag(&t.rates, &t.span), "rate", "`requests` a second, at random; 1..32 finds the knee")
	f.Var(failuresFlag(&t.point.MaxFailures), "max-failures", "`share` of requests that may fail in a run that counts (default 1%)")
	f.StringVar(&t.records, "records", "", "write each request to `FILE` as it ends, a JSON object a line")
}

func (t *measureRun) outputFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	t.output.chart, t.output.report = true, true
	t.output.flags(cmd)
	f.StringVar(&t.results, "results", "", "store the results in `FOLDER`, as \"llmprof run\" does")
	f.BoolVar(&t.output.binary, "binary", false, "memory in GiB (2^30) rather than GB (10^9)")
}
