package schema

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"reflect"
	"strings"
	"sync"
)

// comments are those of types and of their fields, by "FOLDER.TYPE" and "FOLDER.TYPE.FIELD".
type comments map[string]string

// of is the comment of a type, or of a field of it.
func (c comments) of(t reflect.Type, field string) string {
	_, folder, _ := strings.Cut(t.PkgPath(), "/")
	return c[strings.TrimSuffix(folder+"."+t.Name()+"."+field, ".")]
}

// parsed has the comments of sources that were read before.
var parsed sync.Map

// commentsOf are the comments of all structs of the sources, which are read once where they can be told apart, as embedded files can.
func commentsOf(sources fs.FS) (comments, error) {
	if !reflect.TypeOf(sources).Comparable() {
		return readAll(sources)
	}
	if known, ok := parsed.Load(sources); ok {
		return known.(comments), nil
	}
	all, err := readAll(sources)
	if err == nil {
		parsed.Store(sources, all)
	}
	return all, err
}

func readAll(sources fs.FS) (comments, error) {
	all := comments{}
	err := fs.WalkDir(sources, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".go") {
			return err
		}
		text, err := fs.ReadFile(sources, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
		if err != nil {
			return err
		}
		all.read(path.Dir(name), file)
		return nil
	})
	return all, err
}

func (c comments) read(folder string, file *ast.File) {
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range g.Specs {
			s, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			key := folder + "." + s.Name.Name
			if c[key] = oneLine(s.Doc); c[key] == "" && len(g.Specs) == 1 {
				c[key] = oneLine(g.Doc)
			}
			if fields, ok := s.Type.(*ast.StructType); ok {
				c.readFields(key, fields)
			}
		}
	}
}

func (c comments) readFields(key string, of *ast.StructType) {
	for _, f := range of.Fields.List {
		about := oneLine(f.Doc)
		if about == "" {
			about = oneLine(f.Comment)
		}
		for _, name := range f.Names {
			c[key+"."+name.Name] = about
		}
	}
}

func oneLine(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
