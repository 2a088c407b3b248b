package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"llmprof/internal/testkit"
)

// documents are README and all that users read.
func documents(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil || len(found) < 5 {
		t.Fatalf("documents %v, %v", found, err)
	}
	return append(found, filepath.Join("..", "..", "README.md"))
}

// TestDocumentLength holds every document to a length that is read; the logs are
// no documents.
func TestDocumentLength(t *testing.T) {
	for _, file := range documents(t) {
		if n := strings.Count(string(must(os.ReadFile(file))), "\n"); n > 400 {
			t.Errorf("%s has %d lines, want 400 at most: split it", file, n)
		}
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// A shown block is what commands print: the commands in a comment, each with filters
// (head N, grep EXPRESSION, from TEXT, until TEXT) after "|" if it has any, with "&&"
// between commands, and their output from there to "<!-- end -->".
var shown = regexp.MustCompile(`(?s)<!-- llmprof ([^\n]*) -->\n.*?<!-- end -->`)

// included is a file of testdata that a document shows.
var included = regexp.MustCompile(`(?s)<!-- (testdata/\S+\.toml) -->\n.*?<!-- end -->`)

// TestDocumentOutput holds what documents show of commands to what they print;
// UPDATE_GOLDEN=1 writes it anew.
func TestDocumentOutput(t *testing.T) {
	blocks := 0
	for i, file := range documents(t) {
		if i%testkit.Cases(4, 1) > 0 && !update {
			continue
		}
		doc := string(must(os.ReadFile(file)))
		want := shown.ReplaceAllStringFunc(doc, func(old string) string {
			blocks++
			line := shown.FindStringSubmatch(old)[1]
			var outputs []string
			for one := range strings.SplitSeq(line, " && llmprof ") {
				command, _, _ := strings.Cut(one, " | ")
				outputs = append(outputs, "$ llmprof "+command+"\n"+printed(t, one))
			}
			return "<!-- llmprof " + line + " -->\n```\n" + strings.Join(outputs, "\n\n") + "\n```\n<!-- end -->"
		})
		want = included.ReplaceAllStringFunc(want, func(old string) string {
			name := included.FindStringSubmatch(old)[1]
			return "<!-- " + name + " -->\n```toml\n" + string(must(os.ReadFile(name))) + "```\n<!-- end -->"
		})
		if update && want != doc {
			testkit.Must(t, os.WriteFile(file, []byte(want), 0o644))
			continue
		}
		if d := cmp.Diff(strings.Split(doc, "\n"), strings.Split(want, "\n")); d != "" {
			t.Errorf("%s: the results have changed; make golden, and read what the text says of them:\n%s", file, d)
		}
	}
	if want := testkit.Cases(1, 8); blocks < want {
		t.Errorf("%d blocks with the output of a command, want %d or more", blocks, want)
	}
}

// printed is what a command line prints, after its filters.
func printed(t *testing.T, line string) string {
	t.Helper()
	parts := strings.Split(line, " | ")
	args := strings.Fields(parts[0])
	for i := range args {
		args[i] = strings.Replace(args[i], "experiments/", "../../experiments/", 1)
	}
	got := try(t, args...)
	if got.code != 0 {
		t.Errorf("llmprof %s: exit %d: %s", args, got.code, got.stderr)
	}
	text, _, _ := strings.Cut(got.stdout, "\nNot compared")
	text, _, _ = strings.Cut(text, "\nSources")
	for _, filter := range parts[1:] {
		name, arg, _ := strings.Cut(filter, " ")
		filtered, err := filterText(strings.TrimSpace(text), name, arg)
		if err != nil {
			t.Fatalf("llmprof %s: %v", line, err)
		}
		text = filtered
	}
	return strings.TrimSpace(text)
}

// filterText keeps the first lines of a text, those that match an expression, or what
// is before or from a line with a beginning.
func filterText(text, name, arg string) (string, error) {
	lines := strings.Split(text, "\n")
	switch name {
	case "head":
		n, err := strconv.Atoi(arg)
		if err != nil {
			return "", err
		}
		return strings.Join(lines[:min(n, len(lines))], "\n"), nil
	case "grep":
		expression, err := regexp.Compile(arg)
		return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return err == nil && !expression.MatchString(l) }), "\n"), err
	case "until", "from":
		i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, arg) })
		if i < 0 {
			return "", fmt.Errorf("no line begins with %q", arg)
		}
		if name == "until" {
			return strings.Join(lines[:i], "\n"), nil
		}
		return strings.Join(lines[i:], "\n"), nil
	}
	return "", fmt.Errorf("no filter %q", name)
}

// commands are the lines of a document's code that begin with llmprof.
func commands(doc string) (lines []string) {
	fenced := false
	for line := range strings.Lines(doc) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			continue
		}
		text, indented := strings.CutPrefix(line, "    ")
		if !fenced && !indented {
			continue
		}
		text, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(text), "$ "), " # ")
		if strings.HasPrefix(text, "llmprof ") && !strings.HasPrefix(text, "llmprof =") {
			lines = append(lines, strings.TrimSpace(text))
		}
	}
	return lines
}

// onGPU are the commands that need a GPU, a server, a cluster or a Python: of these, flags and
// their values are checked.
var onGPU = regexp.MustCompile(`^llmprof (measure|run|serve|gpus detect|validate .*--live|validate .*--device|calibrate( |$)|.*--submit ` +
	`slurm)`)

// TestDocumentCommands runs every command that documents show without its output;
// TestDocumentOutput runs the others.
func TestDocumentCommands(t *testing.T) {
	dir, count := t.TempDir(), 0
	var files []string
	for _, file := range documents(t) {
		script := ""
		for _, line := range commands(shown.ReplaceAllString(string(must(os.ReadFile(file))), "")) {
			count++
			if onGPU.MatchString(line) && !strings.Contains(line, "calibrate --rows") {
				line += " --help"
			}
			script += fmt.Sprintf("exec %s\n", strings.ReplaceAll(line, `"`, "'"))
		}
		long := []string{"planning.md", "serving.md", "calibration.md", "validation.md"}[:testkit.Cases(4, 0)]
		if script == "" || slices.Contains(long, filepath.Base(file)) {
			continue
		}
		name := filepath.Join(dir, strings.TrimSuffix(filepath.Base(file), ".md")+".txtar")
		testkit.Must(t, os.WriteFile(name, []byte(script), 0o644))
		files = append(files, name)
	}
	if count < 30 {
		t.Errorf("%d commands in documents, want 30 or more", count)
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	testkit.Must(t, err)
	rows := testkit.Unzipped(t, filepath.Join(root, "measure", "calibrate", "testdata", "h200-transformers.jsonl.gz"))
	testscript.Run(t, testscript.Params{Files: files, RequireExplicitExec: true, Setup: func(env *testscript.Env) error {
		env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
		env.Setenv("HF_HUB_OFFLINE", "1")
		return belongings(root, env.WorkDir, rows)
	}})
}

// belongings are the files that the commands of documents name: the user's model,
// rows of operators, a calibration, results and what the repository has.
func belongings(root, dir string, rows []byte) error {
	const result = "measure-20261122T123928-2136e0693642-c0.p0.json"
	return errors.Join(
		os.Mkdir(filepath.Join(dir, "my-model"), 0o755),
		os.WriteFile(filepath.Join(dir, "my-model", "config.json"), []byte(tinyLlama), 0o644),
		os.WriteFile(filepath.Join(dir, "mine.jsonl"), rows, 0o644),
		os.Symlink(filepath.Join(root, "hardware", "calibrations", "h200-sxm-141gb.toml"), filepath.Join(dir, "mine.toml")),
		os.Symlink(filepath.Join(root, "experiments"), filepath.Join(dir, "experiments")),
		os.Mkdir(filepath.Join(dir, "mine"), 0o755),
		os.WriteFile(filepath.Join(dir, "trace.jsonl"), []byte(
			"{\"time\": 0, \"prompt\": 1024, \"generated\": 16}\n{\"time\": 1, \"prompt\": 512, \"generated\": 32}\n"), 0o644),
		os.Symlink(filepath.Join(root, "experiments", "h200-native", result), filepath.Join(dir, "mine", result)),
	)
}
