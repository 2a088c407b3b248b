package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Positional takes arguments for the flags of these names, in their order, as far as
// they are given: "estimate MODEL GPU".
func Positional(flags ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > len(flags) {
			return fmt.Errorf("%s takes %s, and got %.40q as well%s", cmd.CommandPath(), argumentNames(flags), args[len(flags)], see(cmd))
		}
		for i, value := range args {
			name := flags[i]
			if f := cmd.Flags().Lookup(name); f.Changed {
				return fmt.Errorf("--%s %.40q and the argument %.40q: give one of them", name, f.Value, value)
			}
			if err := cmd.Flags().Set(name, value); err != nil {
				return FlagError(cmd, err)
			}
		}
		return nil
	}
}

func argumentNames(flags []string) string {
	if len(flags) == 1 {
		return "one argument, the " + flags[0]
	}
	return "arguments for " + strings.Join(flags, " and ")
}

// Needs takes from least to most arguments, named as the usage names them; most is -1
// where any number will do.
func Needs(what string, least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return fmt.Errorf("%s takes one argument, %s, and got none%s", cmd.CommandPath(), what, see(cmd))
		case most >= 0 && len(args) > most:
			return fmt.Errorf("%s takes one argument, %s, and got %.40q as well%s", cmd.CommandPath(), what, args[most], see(cmd))
		}
		return nil
	}
}
