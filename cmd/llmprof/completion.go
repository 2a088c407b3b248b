package main

import (
	"github.com/spf13/cobra"
)

func (a *app) completion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a script that completes commands in a shell",
		Long: "Print a script that completes commands, flags and their values in a shell.\n\n" +
			"  bash:  source <(llmprof completion bash)\n" +
			"  zsh:   llmprof completion zsh > \"${fpath[1]}/_llmprof\"\n" +
			"  fish:  llmprof completion fish > ~/.config/fish/completions/llmprof.fish",
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
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
