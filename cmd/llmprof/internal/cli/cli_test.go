package cli

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// command is a command with flags of two groups.
func command(ran *[]int) *cobra.Command {
	root := &cobra.Command{Use: "root", SilenceErrors: true, SilenceUsage: true}
	var size int
	var list []int
	var name string
	cmd := &cobra.Command{Use: "estimate NAME", Short: "Do it", Args: Positional("name"), Run: func(*cobra.Command, []string) {
		*ran = append([]int{size}, list...)
	}}
	Define(cmd, Workload, func(f *pflag.FlagSet) {
		f.IntVarP(&size, "size", "s", 1, "`tokens`")
		f.IntSliceVar(&list, "list", nil, "`sizes` to try")
		f.StringVar(&name, "name", "", "`name` of it")
	})
	Define(cmd, Output, func(f *pflag.FlagSet) { f.Bool("seldom", false, "seldom used") })
	Rare(cmd, "seldom")
	root.AddCommand(cmd)
	root.SetFlagErrorFunc(FlagError)
	Install(root, "root 1.2", false)
	return root
}

func execute(t *testing.T, ran *[]int, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	root := command(ran)
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), err
}

func TestLenientFlags(t *testing.T) {
	var ran []int
	if _, err := execute(t, &ran, "estimate", "-s", "32k", "--list", "1,2K", "--list", "1e3"); err != nil {
		t.Fatal(err)
	}
	if len(ran) != 4 || ran[0] != 32000 || ran[1] != 1 || ran[2] != 2048 || ran[3] != 1000 {
		t.Errorf("ran with %v", ran)
	}
}

func TestFlagErrors(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"estimate --siez 3", "unknown flag --siez; did you mean --size?"},
		{"estimate --zzzzzz 3", `unknown flag --zzzzzz; see "root estimate --help"`},
		{"estimate -x", `unknown flag -x; see "root estimate --help"`},
		{"estimate --size many", `--size "many": want a whole number, as 512, 32k (32000), 32K (32768) or 1e3`},
		{"estimate --size", `--size needs a value, a whole number, as 8; see "root estimate --help"`},
		{"estimate --seldom=perhaps", `--seldom "perhaps": want true or false, or no value at all`},
		{"estimate a b", `root estimate takes one argument, the name, and got "b" as well; see "root estimate --help"`},
		{"estimate a --name b", `--name "b" and the argument "a": give one of them`},
	} {
		var ran []int
		if _, err := execute(t, &ran, strings.Fields(c.args)...); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v; want %s", c.args, err, c.want)
		}
	}
}

func TestHelp(t *testing.T) {
	var ran []int
	short, err := execute(t, &ran, "estimate", "--help")
	if err != nil || strings.Contains(short, "--seldom") || !strings.Contains(short, "Workload:\n  -s, --size tokens") ||
		!strings.Contains(short, "1 more flag: root estimate --help-all") {
		t.Errorf("%v: %s", err, short)
	}
	if all, err := execute(t, &ran, "estimate", "--help-all"); err != nil || !strings.Contains(all, "Output:\n      --seldom") ||
		strings.Contains(all, "more flag") {
		t.Errorf("%v: %s", err, all)
	}
	// A command without rare flags takes it too.
	if of, err := execute(t, &ran, "--help-all"); err != nil || !strings.Contains(of, "estimate") {
		t.Errorf("%v: %s", err, of)
	}
	for line := range strings.Lines(short) {
		if utf8.RuneCountInString(line) > Width+1 {
			t.Errorf("a line of %d columns: %s", len(line), line)
		}
	}
	if text, err := execute(t, &ran, "estimate", "--version"); err != nil || text != "root 1.2\n" {
		t.Errorf("--version: %v, %q", err, text)
	}
}

func TestUnknownCommand(t *testing.T) {
	var ran []int
	root := command(&ran)
	if err := UnknownCommand(root, "estimat"); err.Error() != `unknown command "estimat"; did you mean "root estimate"?` {
		t.Error(err)
	}
	if err := UnknownCommand(root, "zebra"); err.Error() != `unknown command "zebra"; see "root --help"` {
		t.Error(err)
	}
}
