package llmprof_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

// fieldsWords has the field's words for words that only this project's code used.
var fieldsWords = map[string]string{
	"rested": "throttling headroom", "uneven": "imbalance", "hunt": "search", "incumbent": "best", "grain": "multiple",
	"handed": "transferred", "pace": "time scale, or remaining time", "paces": "time scales", "paced": "scaled", "follower": "progress",
	"tower": "encoder", "towers": "encoders", "doubt": "unsupported", "doubts": "unsupported",
	"mix": "file type, or token mixer", "mixes": "file types",
	"mistake": "error", "mistakes": "errors", "excess": "limit", "publication": "paper table", "basis": "evidence, or calibration",
	"question": "request", "questions": "requests", "settle": "resolve", "settled": "resolved",
}

// mayBe are names that have such a word in the field's own sense.
var mayBe = regexp.MustCompile(`^(mix|mixes|mixOne)$`)

// TestNamesAreTheFields checks that no declaration has a name that a reader who knows the field does not know.
func TestNamesAreTheFields(t *testing.T) {
	part := regexp.MustCompile(`[A-Z]?[a-z0-9]+|[A-Z]+`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || len(path) > 1 && d.Name()[0] == '.'):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			for _, name := range declared(n) {
				for _, word := range part.FindAllString(name.Name, -1) {
					if better := fieldsWords[strings.ToLower(word)]; better != "" && !mayBe.MatchString(name.Name) {
						t.Errorf("%v: %s: say %s for %q", set.Position(name.Pos()), name.Name, better, word)
					}
				}
			}
			return true
		})
		return nil
	})
	testkit.Must(t, err)
}

// declared are the names that a node declares.
func declared(n ast.Node) []*ast.Ident {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{n.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{n.Name}
	case *ast.Field:
		return n.Names
	case *ast.ValueSpec:
		return n.Names
	}
	return nil
}
