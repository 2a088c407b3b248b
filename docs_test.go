package llmprof_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	ignored = regexp.MustCompile(`[^\w\- ]`)
)

// anchors are the names of a document's headings as GitHub makes them.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(text, -1) {
		out[strings.ReplaceAll(ignored.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")] = true
	}
	return out
}

// TestDocumentLinks checks that every relative link of the documents leads to a file, and its
// fragment to a heading of it.
func TestDocumentLinks(t *testing.T) {
	var documents []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/log/*.md", "experiments/*/*.md"} {
		found, err := filepath.Glob(pattern)
		testkit.Must(t, err)
		documents = append(documents, found...)
	}
	if len(documents) < 10 {
		t.Fatalf("only %q are documents", documents)
	}
	for _, document := range documents {
		text := read(t, document)
		for _, l := range link.FindAllStringSubmatch(text, -1) {
			path, fragment, _ := strings.Cut(l[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			target := document
			if path != "" {
				target = filepath.Join(filepath.Dir(document), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", document, l[1], err)
			} else if fragment != "" && !anchors(read(t, target))[fragment] {
				t.Errorf("%s links to %s, and %s has no such heading", document, l[1], target)
			}
		}
	}
}

// TestReadmeShowsTheExample holds README's Go program against the example of package deployment, which a test runs.
func TestReadmeShowsTheExample(t *testing.T) {
	_, rest, found := strings.Cut(read(t, "README.md"), "```go\n")
	shown, _, _ := strings.Cut(rest, "```")
	example := strings.ReplaceAll(read(t, filepath.Join("deployment", "example_test.go")), "// Output: ", "// ")
	_, body, _ := strings.Cut(example, "func Example() {\n")
	body, _, _ = strings.Cut(body, "\n}\n")
	if want := strings.ReplaceAll("\n"+body, "\n\t", "\n")[1:] + "\n"; !found || shown != want {
		t.Errorf("README shows\n%s\nand the example is\n%s", shown, want)
	}
}

// TestSurface holds what other programs may import: packages that say what of them may change, and those below them.
func TestSurface(t *testing.T) {
	surface := strings.Fields("unit roofline models hardware analytic serving deployment plan plots measure validate")
	for _, name := range surface {
		files, err := filepath.Glob(filepath.Join(name, "*.go"))
		testkit.Must(t, err)
		said := slices.ContainsFunc(files, func(f string) bool {
			text := read(t, f)
			return strings.Contains(text, "// Package "+name+" ") && strings.Contains(text, "\n// What may change: ")
		})
		if !said {
			t.Errorf("the comment of package %s does not say what may change", name)
		}
	}
	testkit.Must(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		top, _, _ := strings.Cut(filepath.ToSlash(path), "/")
		switch {
		case err != nil || d.IsDir():
			return err
		case filepath.Ext(path) != ".go" || top == path || strings.HasSuffix(path, "_test.go"):
		case !slices.Contains(append(surface, "cmd", "internal", "web", "experiments"), top):
			t.Errorf("%s is neither in the surface nor internal", path)
		}
		return nil
	}))
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	return string(text)
}
