package cli

import (
	"slices"

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
