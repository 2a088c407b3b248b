package engine

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// named has the files that may name an engine: parsers of what engines write, and the layout of ELANA's tables.
var named = []string{"serving/replay/forms.go", "cmd/llmprof/results.go", "cmd/llmprof/measure_flags.go"}

// The rooms that predict, serve, plan and answer ask an engine what it is like, and never which one it is: no string of theirs is an
// engine's name, and no identifier has one in it, but those of the code of schedulers in serving, which has a file for each.
func TestNoEngineIsNamedElsewhere(t *testing.T) {
	var names []string
	for _, e := range all() {
		names = append(append(names, e.profile.Name), e.profile.Aliases...)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == "gguf" }) // It is a format of files too.
	is := regexp.MustCompile(`(?i)^(` + strings.ReplaceAll(strings.Join(names, "|"), ".", `\.`) + `)([@+].*)?$`)
	has := regexp.MustCompile(`(?i)vllm|sglang|llama_?cpp|tensorrt|trtllm`)
	files := 0
	for _, room := range []string{"roofline", "analytic", "serving", "plan", "cmd"} {
		err := filepath.WalkDir(filepath.Join("../..", room), func(path string, d fs.DirEntry, err error) error {
			name, _ := filepath.Rel("../..", path)
			name = filepath.ToSlash(name)
			switch {
			case err != nil:
				return err
			case d.IsDir() && name == "analytic/engine":
				return fs.SkipDir
			case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
				return nil
			}
			files++
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BasicLit:
					text, err := strconv.Unquote(n.Value)
					if err == nil && n.Kind == token.STRING && is.MatchString(text) && !slices.Contains(named, name) {
						t.Errorf("%s:%d names the engine %q", name, set.Position(n.Pos()).Line, text)
					}
				case *ast.Ident:
					if has.MatchString(n.Name) && !strings.HasPrefix(name, "serving/policy") {
						t.Errorf("%s:%d: %s has an engine's name", name, set.Position(n.Pos()).Line, n.Name)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 100 {
		t.Errorf("%d files were read, want those of five rooms", files)
	}
}
