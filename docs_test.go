package llmprof_test

import (
	"os"
	"path/filepath"
	"regexp"
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

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	return string(text)
}
