package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"llmprof/printable"
	"llmprof/redact"
)

// An app is one run of the program and what it is connected to.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            func(string) string
	started        bool            // the command line was understood
	secrets        redact.Redactor // of the command line
}

// root is the command tree.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "llmprof",
		Short: "Predict what LLM inference costs on a GPU",
		Long: "llmprof predicts what inference of a large language model costs on a GPU (time, memory,\n" +
			"energy, money) from the shape of the model and the data sheet of the GPU.",
		Example: "  llmprof estimate --model llama2-70b --gpu a100 --tp 8\n" +
			"  llmprof models show qwen3-30b-a3b\n" +
			"  llmprof gpus list",
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              noArgs,
		PersistentPreRun:  func(*cobra.Command, []string) { a.started = true },
		RunE:              needCommand,
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 99"))
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%w; see \"%s --help\"", err, cmd.CommandPath())
	})
	root.AddCommand(a.estimate(), a.sweepCommand(), a.planCommand(), a.compare(), a.simulate(), a.report(), a.graph(), a.plot(), a.models(), a.gpus(), a.version(), a.completion(), a.man())
	root.AddCommand(a.measure(), a.runCommand(a.measurer), a.config(), a.aggregate(), a.results(), a.validate(), a.engineNative(), a.calibrate())
	return root
}

// noArgs refuses arguments, which may be misspelt commands.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return usage("unknown command %.40q; did you mean %q?", args[0], cmd.CommandPath()+" "+near[0])
	}
	if cmd.HasSubCommands() {
		return usage("unknown command %.40q; see \"%s --help\"", args[0], cmd.CommandPath())
	}
	return usage("%s takes no arguments, but got %.40q; see \"%s --help\"", cmd.CommandPath(), args[0], cmd.CommandPath())
}

// needCommand is run where a command has only sub-commands.
func needCommand(cmd *cobra.Command, _ []string) error {
	names := ""
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names += " " + c.Name()
		}
	}
	return usage("%s needs a command:%s; see \"%s --help\"", cmd.CommandPath(), names, cmd.CommandPath())
}

// logf writes a remark to standard error.
func (a *app) logf(format string, args ...any) {
	fmt.Fprintf(a.stderr, "llmprof: %s\n", printable.Text(a.secrets.Text(fmt.Sprintf(format, args...))))
}
