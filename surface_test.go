package llmprof_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

// rooms are the packages that other programs may import. The comment of each says what of it stays.
var rooms = []string{"unit", "roofline", "models", "hardware", "analytic", "serving", "deployment", "plan", "plots", "measure", "validate"}

// TestOtherProgramsImportRoomsAlone checks that whatever other programs can import is a room or a part of one. The package at the
// root only holds tables, and web only files.
func TestOtherProgramsImportRoomsAlone(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (slices.Contains([]string{"internal", "testdata"}, d.Name()) || len(path) > 1 && d.Name()[0] == '.'):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly)
		if err != nil {
			return err
		}
		room, _, below := strings.Cut(filepath.ToSlash(path), "/")
		if below && file.Name.Name != "main" && room != "web" && !slices.Contains(rooms, room) {
			t.Errorf("%s can be imported by other programs: move its package to internal", path)
		}
		return nil
	})
	testkit.Must(t, err)
}

// TestSurfaceStays checks that all that the rooms promised at the last release is still declared in the same way. What is added
// is promised from the time when UPDATE_GOLDEN=1 writes the file anew.
func TestSurfaceStays(t *testing.T) {
	var now []string
	for _, room := range rooms {
		now = append(now, promised(t, room)...)
	}
	file := filepath.Join("testdata", "surface.txt")
	if testkit.Update() {
		testkit.Must(t, os.WriteFile(file, []byte(strings.Join(now, "\n")+"\n"), 0o600))
	}
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); !slices.Contains(now, line) {
			t.Errorf("this was promised to other programs, and is no more: %s", line)
		}
	}
}

var (
	stays = regexp.MustCompile(`What may change:[^.]*;\s([^.;]*)\sstays?\.`)
	named = regexp.MustCompile(`\b[A-Z]\w+`)
)

// promised are the declarations that a room's comment says will stay.
func promised(t *testing.T, room string) (lines []string) {
	set, files := token.NewFileSet(), []*ast.File(nil)
	paths, err := filepath.Glob(filepath.Join(room, "*.go"))
	testkit.Must(t, err)
	for _, path := range paths {
		here, err := build.Default.MatchFile(filepath.Split(path)) // a page has stubs of some methods
		testkit.Must(t, err)
		if here && !strings.HasSuffix(path, "_test.go") {
			file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
			testkit.Must(t, err)
			files = append(files, file)
		}
	}
	all, err := doc.NewFromFiles(set, files, "llmprof/"+room)
	testkit.Must(t, err)
	found := stays.FindStringSubmatch(all.Doc)
	if found == nil {
		t.Fatalf("the comment of package %s does not say what may change and what stays", room)
	}
	for _, name := range named.FindAllString(found[1], -1) {
		before := len(lines)
		addDeclared(all, name, func(name string, of ast.Node) {
			var b bytes.Buffer
			testkit.Must(t, printer.Fprint(&b, set, of))
			lines = append(lines, room+"."+name+" "+strings.Join(strings.Fields(b.String()), " "))
		})
		if len(lines) == before {
			t.Errorf("the comment of package %s promises %s, which is not declared there", room, name)
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// addDeclared adds a function, or a type with its methods and the functions that return it.
func addDeclared(all *doc.Package, name string, add func(name string, of ast.Node)) {
	funcs := all.Funcs
	for _, of := range all.Types {
		if of.Name != name {
			funcs = append(funcs, of.Funcs...)
			continue
		}
		for _, f := range of.Funcs {
			add(f.Name, f.Decl.Type)
		}
		for _, f := range of.Methods {
			add(name+"."+f.Name, f.Decl.Type)
		}
		for _, spec := range of.Decl.Specs {
			addType(all, add, name, spec.(*ast.TypeSpec).Type)
		}
	}
	for _, f := range funcs {
		if f.Name == name {
			add(name, f.Decl.Type)
		}
	}
}

// addType adds a type. Of a struct it adds the exported fields, each with the key that its tag gives it, and those of embedded structs of
// the room as if they were its own; of another type it adds its definition.
func addType(all *doc.Package, add func(name string, of ast.Node), name string, of ast.Expr) {
	fields, is := of.(*ast.StructType)
	if !is {
		add(name, of)
		return
	}
	add(name, &ast.Ident{Name: "struct"})
	for _, f := range fields.Fields.List {
		key := ""
		if f.Tag != nil {
			text, _ := strconv.Unquote(f.Tag.Value)
			key, _, _ = strings.Cut(reflect.StructTag(text).Get("json"), ",")
		}
		if within, ok := f.Type.(*ast.Ident); ok && len(f.Names) == 0 {
			for _, t := range all.Types {
				if t.Name == within.Name && within.IsExported() {
					addType(all, add, name, t.Decl.Specs[0].(*ast.TypeSpec).Type)
				}
			}
		}
		for _, field := range f.Names {
			if field.IsExported() {
				add(strings.TrimSuffix(fmt.Sprintf("%s.%s %s", name, field.Name, key), " "), f.Type)
			}
		}
	}
}
