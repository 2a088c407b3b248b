// Package web holds the static files of the page: what is written by hand in static, the
// libraries in vendor and, where "make web" has run, the page's program in wasm.
package web

import (
	"embed"
	"io/fs"
	"path"
)

//go:embed static/* vendor/libraries.js vendor/LICENSES.txt wasm/*
var files embed.FS

// Files are the static files by the names that the page knows them by, all in one folder.
func Files() (map[string][]byte, error) {
	all := map[string][]byte{}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) == ".md" {
			return err
		}
		all[path.Base(name)], err = files.ReadFile(name)
		return err
	})
	return all, err
}

// Program is the name of the page's program among the files, which is missing where it
// has not been built.
const Program = "llmprof.wasm.gz"
