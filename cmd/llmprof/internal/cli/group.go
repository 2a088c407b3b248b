package cli

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A Group is a heading of the help, with the flags under it.
type Group string

// The groups, in the order of the help. A group that is not in the list comes after
// those that are, and before Output.
const (
	Model    Group = "Model"
	Hardware Group = "Hardware"
	Workload Group = "Workload"
	Server   Group = "Server"
	Figures  Group = "What is measured"
	Engine   Group = "Engine"
	Output   Group = "Output"
)

// order is where a group stands in the help.
func (g Group) order() int {
	known := []Group{Model, Hardware, Workload, Server, Figures, Engine, "", Output}
	if i := slices.Index(known, g); i >= 0 {
		return i
	}
	return slices.Index(known, "")
}

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

// First moves flags to the head of their group.
func First(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		annotate(cmd.Flags().Lookup(name), firstKey, "")
	}
}

// firstKey annotates a flag that stands before the others of its group.
const firstKey = "llmprof_first"

// Rare leaves flags to --help-all.
func Rare(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		annotate(cmd.Flags().Lookup(name), rareKey, "")
	}
}

// annotate notes something of a flag. A flag that does not exist is a mistake of the
// program, which every test of the command finds.
func annotate(f *pflag.Flag, key, value string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[key] = []string{value}
}

// is reports whether a flag is annotated so.
func is(f *pflag.Flag, key string) bool {
	_, ok := f.Annotations[key]
	return ok
}

// A section is a group with its flags.
type section struct {
	group Group
	flags []*pflag.Flag
}

// sections are the flags of a command by their groups, and how many that are rarely
// needed were left out.
func sections(cmd *cobra.Command, all bool) (list []section, left int) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		if is(f, rareKey) && !all {
			left++
			return
		}
		var group Group
		if names := f.Annotations[groupKey]; len(names) > 0 {
			group = Group(names[0])
		}
		i := slices.IndexFunc(list, func(s section) bool { return s.group == group })
		if i < 0 {
			list = append(list, section{group: group})
			i = len(list) - 1
		}
		list[i].flags = append(list[i].flags, f)
	})
	slices.SortStableFunc(list, func(a, b section) int { return a.group.order() - b.group.order() })
	for _, s := range list {
		slices.SortStableFunc(s.flags, func(a, b *pflag.Flag) int { return last(a) - last(b) })
	}
	return list, left
}

// last is 0 of a flag that stands first in its group.
func last(f *pflag.Flag) int {
	if is(f, firstKey) {
		return 0
	}
	return 1
}
