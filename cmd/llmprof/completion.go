package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"llmprof/cmd/llmprof/internal/cli"
)

// knownShell refuses shells that there is no script for.
func knownShell(cmd *cobra.Command, args []string) error {
	if slices.Contains(cmd.ValidArgs, args[0]) {
		return nil
	}
	return fmt.Errorf("unknown shell %.40q: want %s", args[0], strings.Join(cmd.ValidArgs, ", "))
}

func (a *app) completion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a script that completes commands in a shell",
		Long: "Print a script that completes commands, flags and their values in a shell.\n\n" +
			"  bash:  source <(llmprof completion bash)\n" +
			"  zsh:   llmprof completion zsh > \"${fpath[1]}/_llmprof\"\n" +
			"  fish:  llmprof completion fish > ~/.config/fish/completions/llmprof.fish",
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		Args:      cobra.MatchAll(cli.Needs("the shell", 1, 1), knownShell),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.stdout, true)
			case "zsh":
				return root.GenZshCompletion(a.stdout)
			case "fish":
				return root.GenFishCompletion(a.stdout, true)
			}
			return root.GenPowerShellCompletionWithDesc(a.stdout)
		},
	}
}
