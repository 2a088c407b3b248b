package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"llmprof/internal/printable"
	"llmprof/internal/spelling"
)

// FlagError says what is wrong with a flag, and which one may have been meant.
func FlagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return err
	case errors.As(err, &unknown):
		return unknownFlag(cmd, unknown)
	case errors.As(err, &missing):
		return fmt.Errorf("--%s needs a value, %s%s", missing.GetFlag().Name, wanted(missing.GetFlag()), see(cmd))
	case errors.As(err, &invalid):
		f := invalid.GetFlag()
		return WrongValue(f.Name, invalid.GetValue(), plainly(f, invalid.Unwrap()))
	}
	return fmt.Errorf("%w%s", err, see(cmd))
}

// WrongValue says what is wrong with the value of a flag. The value stands in it once.
func WrongValue(flag, value string, err error) error {
	if strings.HasPrefix(err.Error(), fmt.Sprintf("%q", value)) {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	return fmt.Errorf("--%s %.40q: %w", flag, value, err)
}

// MayBeEmpty lets a flag be given an empty text, which takes back an earlier one.
func MayBeEmpty(cmd *cobra.Command, name string) {
	_ = cmd.Flags().SetAnnotation(name, mayBeEmpty, nil)
}

const mayBeEmpty = "llmprof_may_be_empty"

// Empty refuses flags that were given an empty text, as of a variable of the shell that is not set.
func Empty(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if _, ok := f.Annotations[mayBeEmpty]; !ok && f.Value.Type() == "string" && f.Value.String() == "" && err == nil {
			err = fmt.Errorf("--%s has an empty value: want one, %s, or leave the flag out", f.Name, wanted(f))
		}
	})
	return err
}

func see(cmd *cobra.Command) string { return fmt.Sprintf("; see %q", cmd.CommandPath()+" --help") }

func unknownFlag(cmd *cobra.Command, err *pflag.NotExistError) error {
	name := err.GetSpecifiedName()
	if err.GetSpecifiedShortnames() != "" {
		if long := err.GetSpecifiedShortnames(); len(long) > 1 && cmd.Flags().Lookup(long) != nil {
			return fmt.Errorf("unknown flag -%.40s; did you mean --%s, with two dashes?", name, long)
		}
		return fmt.Errorf("unknown flag -%.40s%s", name, see(cmd))
	}
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden || f.Name == helpAllFlag {
			known = append(known, f.Name)
		}
	})
	if here := elsewhere[strings.ReplaceAll(strings.ToLower(name), "_", "-")]; here != "" &&
		cmd.Flags().Lookup(strings.Fields(here)[0]) != nil {
		return fmt.Errorf("unknown flag --%.40s; here it is --%s", name, here)
	}
	if near := spelling.Near(name, known); len(near) > 0 {
		return fmt.Errorf("unknown flag --%.40s; did you mean --%s?", name, near[0])
	}
	return fmt.Errorf("unknown flag --%.40s%s", name, see(cmd))
}

// elsewhere are flags of engines and of other tools, by what stands for them here.
var elsewhere = map[string]string{
	"tensor-parallel-size": "tp", "pipeline-parallel-size": "pp", "data-parallel-size": "dp", "expert-parallel-size": "ep",
	"moe-tensor-parallel-size": "moe-tp", "moe-tp-size": "moe-tp", "moe-expert-parallel-size": "ep", "moe-ep-size": "ep",
	"tp-size": "tp", "pp-size": "pp", "dp-size": "dp", "ep-size": "ep",
	"input-len": "prompt-len", "isl": "prompt-len", "in": "prompt-len", "input": "prompt-len", "prompt": "prompt-len", "seq-len": "prompt-len",
	"output-len": "gen-len", "osl": "gen-len", "out": "gen-len", "max-tokens": "gen-len", "max-new-tokens": "gen-len",
	"context": "prompt-len", "context-len": "prompt-len", "max-model-len": "prompt-len with --gen-len",
	"ctx-size":   "prompt-len with --gen-len",
	"batch-size": "batch", "max-num-seqs": "batch", "bs": "batch",
	"quantization": "weights", "quant": "weights", "dtype": "weights", "kv-cache-dtype": "kv",
	"power-cap": "power-limit", "gpu-clock": "clock", "lock-gpu-clocks": "clock",
	"gpu-memory-utilization": "memory-utilization", "mem-fraction-static": "memory-utilization", "num-gpus": "tp", "gpus": "tp",
	"nodes": "gpus-per-node with --tp, --pp or --dp", "nnodes": "gpus-per-node with --tp, --pp or --dp",
	"num-nodes": "gpus-per-node with --tp, --pp or --dp",
	"json":      "format json", "csv": "format csv", "backend": "engine", "model-path": "model",
}

// plainly says what a flag wants where Go's reader of numbers refused its value.
func plainly(f *pflag.Flag, err error) error {
	var number *strconv.NumError
	if !errors.As(err, &number) {
		return err
	}
	if errors.Is(number, strconv.ErrRange) {
		return fmt.Errorf("the number is too large")
	}
	return fmt.Errorf("want %s", wanted(f))
}

// wanted says what kind of value a flag takes.
func wanted(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int", "int64", "uint64":
		return "a whole number, as 8"
	case "float64":
		return "a number, as 0.5"
	case "bool":
		return "true or false, or no value at all"
	case "duration":
		return "a time, as 500ms or 2m"
	case "string":
		value, _ := pflag.UnquoteUsage(f)
		return "as in --" + f.Name + " " + strings.ToUpper(value)
	}
	value, _ := pflag.UnquoteUsage(f)
	return "as in --" + f.Name + " " + value
}

// UnknownCommand is the error of a word that is no command below cmd.
func UnknownCommand(cmd *cobra.Command, name string) error {
	var known []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			known = append(append(known, c.Name()), c.Aliases...)
		}
	}
	if near := spelling.Near(name, known); len(near) > 0 {
		return fmt.Errorf("unknown command %.40q; did you mean %q?", name, cmd.CommandPath()+" "+near[0])
	}
	if slices.Contains(known, "show") {
		return fmt.Errorf("unknown command %.40q; did you mean %q?", name, cmd.CommandPath()+" show "+printable.Text(name))
	}
	var below []string
	for _, c := range cmd.Commands() {
		if sub, _, err := c.Find([]string{name}); err == nil && sub != c && c.IsAvailableCommand() {
			below = append(below, strconv.Quote(sub.CommandPath()))
		}
	}
	if len(below) > 0 {
		return fmt.Errorf("unknown command %.40q; did you mean %s?", name, strings.Join(below, " or "))
	}
	return fmt.Errorf("unknown command %.40q%s", name, see(cmd))
}
