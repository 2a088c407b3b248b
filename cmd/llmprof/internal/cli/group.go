// Package cli has what the flags and the help of all commands share: groups of
// flags, numbers as people write them, near misses of names.
package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/internal/printable"
	"llmprof/plots/render"
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
	askedKey = "llmprof_asked" // --help-all was given
)

// Define puts the flags that define adds to the command into a group.
func Define(cmd *cobra.Command, group Group, define func(*pflag.FlagSet)) {
	cmd.Flags().SortFlags = false // VisitAll would sort them each time
	define(cmd.Flags())
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

// Width is how many columns the help takes at most.
const Width = 80

// helpAllFlag shows the flags that are rarely needed too.
const helpAllFlag = "help-all"

// Install gives the command and all commands below it their help and --version.
func Install(root *cobra.Command, version string, ascii bool) {
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { help(cmd.OutOrStdout(), cmd, ascii) })
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		help(cmd.OutOrStderr(), cmd, ascii)
		return nil
	})
	root.SetVersionTemplate("{{.Version}}\n")
	install(root, version)
}

func install(cmd *cobra.Command, version string) {
	f := cmd.Flags()
	f.SortFlags = false
	cmd.DisableFlagsInUseLine = true
	cmd.Version = version
	f.Bool("version", false, "print the version")
	f.BoolP("help", "h", false, "show this help")
	f.Lookup("version").Hidden = cmd.HasParent()
	f.Lookup("help").Hidden = true
	f.BoolFunc(helpAllFlag, "show all flags", func(string) error {
		annotate(f.Lookup(helpAllFlag), askedKey, "")
		return pflag.ErrHelp // ends the reading of the flags as --help does
	})
	f.Lookup(helpAllFlag).Hidden = true
	f.VisitAll(settings.Lenient)
	for _, c := range cmd.Commands() {
		install(c, version)
	}
}

func help(w io.Writer, cmd *cobra.Command, ascii bool) {
	all := false
	if f := cmd.Flags().Lookup(helpAllFlag); f != nil {
		_, all = f.Annotations[askedKey]
	}
	page := Text(cmd, all)
	if ascii {
		page = printable.ASCII(page)
	}
	fmt.Fprint(w, page)
}

// Text is the help of a command, with all flags or with those that are often needed.
func Text(cmd *cobra.Command, all bool) string {
	var b strings.Builder
	about := cmp.Or(cmd.Long, cmd.Short+".")
	b.WriteString(fill(about) + "Usage:\n  " + cmd.UseLine())
	list, left := Sections(cmd, all)
	if len(list) > 0 {
		b.WriteString(" [flags]")
	}
	b.WriteString("\n")
	if cmd.Example != "" {
		b.WriteString("\nExamples:\n" + cmd.Example + "\n")
	}
	commands(&b, cmd)
	for _, s := range list {
		heading := cmp.Or(string(s.Group), "Flags")
		b.WriteString("\n" + heading + ":\n")
		writeFlags(&b, s.Flags)
	}
	switch {
	case left == 1:
		fmt.Fprintf(&b, "\n1 more flag: %s --help-all\n", cmd.CommandPath())
	case left > 1:
		fmt.Fprintf(&b, "\n%d more flags: %s --help-all\n", left, cmd.CommandPath())
	case cmd.HasAvailableSubCommands():
		fmt.Fprintf(&b, "\nMore about a command: %s COMMAND --help\n", cmd.CommandPath())
	}
	return b.String()
}

func commands(b *strings.Builder, cmd *cobra.Command) {
	if !cmd.HasAvailableSubCommands() {
		return
	}
	write := func(title, group string) {
		first := true
		for _, c := range cmd.Commands() {
			if !c.IsAvailableCommand() || c.GroupID != group {
				continue
			}
			if first {
				b.WriteString("\n" + title + ":\n")
				first = false
			}
			fmt.Fprintf(b, "  %-12s %s\n", c.Name(), c.Short)
		}
	}
	for _, g := range cmd.Groups() {
		write(g.Title, g.ID)
	}
	title := "Commands"
	if len(cmd.Groups()) > 0 {
		title = "Other commands"
	}
	write(title, "")
}

// writeFlags lists flags, their texts in a column.
func writeFlags(b *strings.Builder, flags []*pflag.Flag) {
	names, texts, column := make([]string, len(flags)), make([]string, len(flags)), 0
	for i, f := range flags {
		value, text := pflag.UnquoteUsage(f)
		names[i] = "      --" + f.Name
		if f.Shorthand != "" {
			names[i] = "  -" + f.Shorthand + ", --" + f.Name
		}
		if value != "" {
			names[i] += " " + value
		}
		texts[i] = text
		if d := f.DefValue; !slices.Contains([]string{"", "0", "1", "false", "[]"}, d) && !strings.Contains(text, "(default") {
			texts[i] += " (default " + strings.Trim(d, "[]") + ")"
		}
		column = max(column, utf8.RuneCountInString(names[i])+2)
	}
	for i := range names {
		lines := render.Wrap(texts[i], Width-column)
		for j, line := range lines {
			name := ""
			if j == 0 {
				name = names[i]
			}
			fmt.Fprintf(b, "%-*s%s\n", column, name, line)
		}
	}
}

// fill wraps the paragraphs of a text; indented ones stay as they are.
func fill(s string) string {
	var b strings.Builder
	for p := range strings.SplitSeq(strings.TrimSpace(s), "\n\n") {
		if strings.HasPrefix(p, " ") {
			b.WriteString(p + "\n\n")
			continue
		}
		b.WriteString(strings.Join(render.Wrap(p, Width), "\n") + "\n\n")
	}
	return b.String()
}
