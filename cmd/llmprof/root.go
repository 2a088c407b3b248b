package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/deployment"
	"llmprof/internal/input"
	"llmprof/internal/printable"
	"llmprof/internal/redact"
	"llmprof/measure/detect"
)

// An app is one run of the program and what it is connected to.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer // stdout makes harmless what it writes where that is a terminal
	styled         io.Writer // stdout for a text that package render has made harmless before it added colours
	env            func(string) string
	started        bool            // the command line was understood
	secrets        redact.Redactor // secrets of the command line
	args           []string        // the command line without the program
	read           *input.Record   // files that were read until now
	lib            *deployment.Library
}

// library reads models, GPUs and calibrations of this machine.
func (a *app) library() *deployment.Library {
	if a.lib == nil {
		a.lib = deployment.Open(a.env)
	}
	return a.lib
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "llmprof COMMAND",
		Short: "Predict what LLM inference costs on a GPU",
		Long: "llmprof predicts what inference of a large language model costs on a GPU (time, memory,\n" +
			"energy, money) from the shape of the model and the data sheet of the GPU.",
		Example: "  llmprof estimate llama3.1-8b h100\n" +
			"  llmprof estimate llama2-70b a100 --tp 8 --batch 32 --ops\n" +
			"  llmprof models show qwen3-30b-a3b",
		SilenceErrors: true, SilenceUsage: true,
		Args: noArgs,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.Empty(cmd); err != nil {
				return err
			}
			a.started = true
			return nil
		},
		RunE: needCommand,
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return wrong(cli.FlagError(cmd, err)) })
	root.SetHelpCommand(helpCommand())
	cobra.EnableCommandSorting = false // they stand as they are added
	group(root, "Predict", a.estimate(), a.planCommand(), a.compare(), a.sweepCommand(), a.simulate(), a.report(), a.graph(), a.plot(),
		a.serve())
	group(root, "Measure", a.measure(), a.validateCommand(&comparison{live: liveFlags{gpus: detect.Here}}), a.calibrate())
	group(root, "Experiments", a.runCommand(a.measurer),
		parent("config", "Check or show experiment files", a.configValidate(), a.configShow()),
		a.aggregate(),
		parent("results", "List or show stored results, or make tables of them", a.resultsList(), a.resultsShow(), a.resultsTable()))
	group(root, "Look up",
		parent("models", "List, show or check models", a.modelsList(), a.modelsShow(), a.modelsCheck(), a.modelsExport()),
		parent("gpus", "List, show, check or detect GPUs", a.gpusList(), a.gpusShow(), a.gpusCheck(), a.gpusDetect()))
	root.AddCommand(a.version(), a.man(), a.schema(), a.engineNative())
	root.InitDefaultCompletionCmd()
	completion, _, _ := root.Find([]string{"completion"}) // Cobra has just added it.
	completion.Use, completion.Args, completion.RunE = "completion COMMAND", noArgs, needCommand
	if len(a.args) > 0 && strings.HasPrefix(a.args[0], cobra.ShellCompRequestCmd) { // Cobra keeps what completes a flag for good.
		complete(root)
	}
	cli.Install(root, versionText(), a.ascii())
	return root
}

// group adds commands under a heading of the help.
func group(root *cobra.Command, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title})
	for _, c := range commands {
		c.GroupID = title
	}
	root.AddCommand(commands...)
}

func parent(name, short string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name + " COMMAND", Short: short, Args: noArgs, RunE: needCommand}
	cmd.AddCommand(below...)
	return cmd
}

// complete has flags complete what they take.
func complete(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		switch words := f.Annotations[settings.Completed]; {
		case words != nil:
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
		case f.Name == "model":
			_ = cmd.RegisterFlagCompletionFunc(f.Name, completeModels)
		case f.Name == "gpu" || f.Name == "gpus":
			_ = cmd.RegisterFlagCompletionFunc(f.Name, completeGPUs)
		}
	})
	for _, below := range cmd.Commands() {
		complete(below)
	}
}

func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return wrong(cli.UnknownCommand(about, strings.Join(rest, " ")))
			}
			return about.Help()
		},
	}
}

// noArgs refuses arguments, which may be misspelt commands.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		return wrong(cli.UnknownCommand(cmd, args[0]))
	}
	return usage("%s takes no arguments, but got %.40q; see \"%s --help\"", cmd.CommandPath(), args[0], cmd.CommandPath())
}

// needCommand is run where a command has only sub-commands. The program by itself shows what it can do.
func needCommand(cmd *cobra.Command, _ []string) error {
	if !cmd.HasParent() {
		return cmd.Help()
	}
	names := ""
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names += " " + c.Name()
		}
	}
	return usage("%s needs a command:%s; see \"%s --help\"", cmd.CommandPath(), names, cmd.CommandPath())
}

func (a *app) logf(format string, args ...any) {
	text := printable.Text(a.secrets.Text(fmt.Sprintf(format, args...)))
	if a.ascii() {
		text = printable.ASCII(text)
	}
	fmt.Fprintf(a.stderr, "llmprof: %s\n", text)
}

// ascii reports whether the locale shows no characters beyond ASCII.
func (a *app) ascii() bool { return a.env != nil && !printable.UTF8(a.env) }

// release is the version of the sources; a build from a tagged module has its
// own.
const release = "0.1.0"

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.stdout, versionText())
			return err
		},
	}
}

func versionText() string {
	s := "llmprof " + release
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return s + " " + runtime.Version()
	}
	revision, modified := "", ""
	for _, kv := range info.Settings {
		switch {
		case kv.Key == "vcs.revision":
			revision = " " + kv.Value[:min(12, len(kv.Value))]
		case kv.Key == "vcs.modified" && kv.Value == "true":
			modified = " modified"
		}
	}
	return s + revision + modified + " " + info.GoVersion + " " + runtime.GOOS + "/" + runtime.GOARCH
}
