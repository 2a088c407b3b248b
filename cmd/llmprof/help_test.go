package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/internal/testkit"
)

// longExample reports whether an example takes seconds, and other tests run what it does for less: plans, every server, all schemas.
func longExample(command, line string) bool {
	return command == "plan" || command == "servers" && !strings.Contains(line, "--gpu") ||
		command == "schema" && strings.Contains(line, "--dir")
}

// TestHelpExamples runs every example that the help shows, but for those that documents
// show too, which run there.
func TestHelpExamples(t *testing.T) {
	var documented []string
	for _, file := range documents(t) {
		documented = append(documented, commands(string(must(os.ReadFile(file))))...)
	}
	dir := t.TempDir()
	testkit.Must(t, errors.Join(writeFixtures(filepath.Join(dir, "results")), writeSynthetic(filepath.Join(dir, "timed"))))
	t.Chdir(dir)
	testkit.Must(t, os.Mkdir("one", 0o755))
	for name, text := range map[string]string{
		"experiment.toml":                   "model = \"llama3.1-8b\"\ngrid = {batch = [1, 8]}\n",
		"config.json":                       strings.Replace(tinyLlama, `embeddings": 128`, `embeddings": 16384`, 1),
		filepath.Join("one", "config.json"): tinyLlama,
		"hardware.toml":                     "[gpu.h100-sxm-80gb]\nprice = \"2.1 $/h\"\nprice_source = \"the example\"\n",
	} {
		testkit.Must(t, os.WriteFile(name, []byte(text), 0o644))
	}
	shown := 0
	each((&app{}).root(), func(cmd *cobra.Command) {
		for line := range strings.Lines(cmd.Example) {
			args := strings.Fields(line)
			if args[0] != "llmprof" {
				t.Errorf("%s: the example %q is of another command", cmd.CommandPath(), line)
			}
			if slices.Contains([]string{"detect", "measure", "run", "calibrate", "serve"}, cmd.Name()) || strings.Contains(line, "--live") {
				continue // they depend on the machine, and have tests of their own
			}
			if slices.Contains(documented, strings.TrimSpace(line)) || longExample(cmd.Name(), line) && testkit.Cases(0, 1) == 0 {
				continue
			}
			if strings.Contains(line, "results/one.json") || strings.Contains(line, "--trace t.json.gz") ||
				strings.Contains(line, "--fail-over 5%") {
				continue // results of measurements, or a trace
			}
			if shown++; shown%testkit.Cases(3, 1) != 0 {
				continue
			}
			args = quotedFields(strings.ReplaceAll(line, "*/config.json", "one/config.json"))
			if got := try(t, args[1:]...); got.code != 0 || got.stdout == "" && !strings.Contains(line, " -o ") && !strings.Contains(line, "--dir") {
				t.Errorf("%s: exit %d: %s", strings.TrimSpace(line), got.code, got.stderr)
			}
		}
	})
}

// TestHelpIsComplete holds that every command says what it does and shows an
// example, and every flag what it means.
func TestHelpIsComplete(t *testing.T) {
	each((&app{}).root(), func(cmd *cobra.Command) {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: short text %q", cmd.CommandPath(), cmd.Short)
		}
		if cmd.HasSubCommands() && cmd.Name() != "validate" && !strings.Contains(cmd.Use, "COMMAND") {
			t.Errorf("%s: its usage does not say that it needs a command", cmd.CommandPath())
		}
		sections, _ := cli.Sections(cmd, true)
		for _, s := range sections {
			if s.Group == "" && len(sections) > 1 {
				t.Errorf("%s: --%s is in no group: define it within cli.Define", cmd.CommandPath(), s.Flags[0].Name)
			}
			for _, f := range s.Flags {
				if f.Usage == "" {
					t.Errorf("%s: --%s has no text", cmd.CommandPath(), f.Name)
				}
			}
		}
		got := try(t, append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
		if got.code != 0 || !strings.Contains(got.stdout, "Usage:") {
			t.Errorf("%s --help: exit %d", cmd.CommandPath(), got.code)
		}
		if n := strings.Count(got.stdout, "\n"); n >= 60 {
			t.Errorf("%s --help has %d lines: leave flags that are rarely needed to --help-all with cli.Rare", cmd.CommandPath(), n)
		}
		for line := range strings.Lines(got.stdout) {
			if n := utf8.RuneCountInString(line); n > cli.Width+1 {
				t.Errorf("%s --help: a line of %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
	})
}

// TestFlagsCompleteWhereAsked holds that flags complete only for a shell that asks: cobra keeps every function that completes a flag until
// the program ends.
func TestFlagsCompleteWhereAsked(t *testing.T) {
	for _, args := range [][]string{{"estimate"}, {cobra.ShellCompRequestCmd, "estimate"}, {cobra.ShellCompNoDescRequestCmd, "estimate"}} {
		completed := 0
		each((&app{args: args}).root(), func(cmd *cobra.Command) {
			for _, name := range []string{"model", "gpu", "gpus", "engine"} {
				if _, ok := cmd.GetFlagCompletionFunc(name); ok {
					completed++
				}
			}
		})
		if asked := len(args) > 1; asked != (completed > 0) {
			t.Errorf("%v: %d flags complete", args, completed)
		}
	}
}

// each calls f for cmd and all commands below it.
func each(cmd *cobra.Command, f func(*cobra.Command)) {
	f(cmd)
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			each(c, f)
		}
	}
}

// quotedFields splits a command line as a shell does that knows double quotes alone.
func quotedFields(line string) (args []string) {
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			args = append(args, part)
			continue
		}
		args = append(args, strings.Fields(part)...)
	}
	return args
}
