package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"llmprof/cmd/llmprof/internal/cli"
)

// man shows or writes the manual pages, from the same texts as the help.
func (a *app) man() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:     "man [COMMAND...]",
		Short:   "Show a manual page, or write all of them",
		Long:    "Show the manual page of a command, as source for man(1), or write those of all commands to a folder.",
		Example: "  llmprof man estimate\n  llmprof man --dir man1",
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir == "" {
				return a.showManual(cmd.Root(), args)
			}
			if len(args) > 0 {
				return usage("--dir writes the pages of all commands; leave out %.40q", args[0])
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			return writeManual(cmd.Root(), dir)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "write the pages of all commands to `FOLDER`")
	return cmd
}

// showManual writes the page of one command to standard output.
func (a *app) showManual(root *cobra.Command, args []string) error {
	about, rest, err := root.Find(args)
	if err != nil || len(rest) > 0 {
		return wrong(cli.UnknownCommand(about, strings.Join(rest, " ")))
	}
	_, err = io.WriteString(a.stdout, manPage(about))
	return err
}

func writeManual(cmd *cobra.Command, dir string) error {
	if cmd.Hidden {
		return nil
	}
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
	if err := writeFile(filepath.Join(dir, name), []byte(manPage(cmd))); err != nil {
		return err
	}
	for _, c := range cmd.Commands() {
		if err := writeManual(c, dir); err != nil {
			return err
		}
	}
	return nil
}

// manPage is the page of one command in the man macros (man-pages(7)): its help with all flags.
func manPage(cmd *cobra.Command) string {
	var b strings.Builder
	title := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %q 1 \"\" \"llmprof %s\" \"llmprof manual\"\n", strings.ToUpper(title), release)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B %s\n.SH DESCRIPTION\n.nf\n%s.fi\n", roff(title), roff(cmd.Short),
		roff(cmd.UseLine()), roff(cli.Text(cmd, true)))
	b.WriteString(".SH EXIT STATUS\n0 if done, 1 if it failed, 2 if the command line was wrong.\n")
	var also []string
	if cmd.HasParent() {
		also = append(also, cmd.Parent().CommandPath())
	}
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			also = append(also, c.CommandPath())
		}
	}
	for i, name := range also {
		also[i] = ".BR " + roff(strings.ReplaceAll(name, " ", "-")) + " (1)"
	}
	b.WriteString(".SH SEE ALSO\n" + strings.Join(also, ",\n") + "\n")
	return b.String()
}

// roff escapes what the formatter would take for a request.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
