// Package cli has what the flags and the help of all commands share: groups of
// flags, numbers as people write them, near misses of names.
package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A Group is a heading of the help, with the flags under it. Groups stand in the order in
// which the command defines them.
type Group string

// The groups that commands share.
const (
	Model    Group = "Model"
	Hardware Group = "Hardware"
	Workload Group = "Workload"
	Engine   Group = "Engine"
	Output   Group = "Output"
)

// The annotations of a flag.
const (
	groupKey = "llmprof_group"
	rareKey  = "llmprof_rare"
)

// Define puts the flags that define adds to the command into a group.
func Define(cmd *cobra.Command, group Group, define func(*cobra.Command)) {
	define(cmd)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if _, ok := f.Annotations[groupKey]; !ok {
			annotate(f, groupKey, string(group))
		}
	})
}

// Rare leaves flags to --help-all.
func Rare(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		annotate(cmd.Flags().Lookup(name), rareKey, "")
	}
}

// annotate sets an annotation of a flag. A flag that does not exist is a mistake of the
// program, which every test of the command finds.
func annotate(f *pflag.Flag, key, value string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[key] = []string{value}
}

// A Section is a group with its flags.
type Section struct {
	Group Group
	Flags []*pflag.Flag
}

// Sections are the flags of a command by their groups, and how many were left out: those
// that are rarely needed, unless all are asked for.
func Sections(cmd *cobra.Command, all bool) (list []Section, left int) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		if _, rare := f.Annotations[rareKey]; rare && !all {
			left++
			return
		}
		var group Group
		if names := f.Annotations[groupKey]; len(names) > 0 {
			group = Group(names[0])
		}
		i := slices.IndexFunc(list, func(s Section) bool { return s.Group == group })
		if i < 0 {
			list = append(list, Section{Group: group})
			i = len(list) - 1
		}
		list[i].Flags = append(list[i].Flags, f)
	})
	return list, left
}

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
