package tables

import (
	"bufio"
	"bytes"
	"cmp"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"

	"llmprof/hardware"
	"llmprof/internal/input"
	"llmprof/unit"
)

// Source says which package tables are of: what was given as NAME,VERSION,LICENCE, else the Python
// distribution that they lie in.
func Source(path, given string) (s hardware.Tables, err error) {
	if given != "" {
		parts := strings.Split(given, ",")
		if len(parts) != 3 {
			return s, unit.Errorf("{source} %.60q: want NAME,VERSION,LICENCE, as aiconfigurator-core,0.12.0,Apache-2.0", given)
		}
		return hardware.Tables{Package: strings.TrimSpace(parts[0]), Version: strings.TrimSpace(parts[1]), Licence: strings.TrimSpace(parts[2])},
			nil
	}
	dir, err := filepath.Abs(path)
	if err != nil {
		return s, err
	}
	for range 8 {
		dir = filepath.Dir(dir)
		found, _ := input.Files(dir, "*.dist-info/METADATA") // the pattern is well formed
		for _, file := range found {
			if inside(path, file) {
				return distribution(file)
			}
		}
	}
	return s, unit.Failf("nothing beside the tables says where they come from: give {source} NAME,VERSION,LICENCE")
}

// inside reports whether a path lies in the folder of the distribution that a METADATA file is of.
func inside(path, metadata string) bool {
	name, _, _ := strings.Cut(filepath.Base(filepath.Dir(metadata)), "-")
	abs, err := filepath.Abs(path)
	return err == nil && strings.HasPrefix(abs+string(os.PathSeparator),
		filepath.Join(filepath.Dir(filepath.Dir(metadata)), name)+string(os.PathSeparator))
}

// mostMetadata is longer than any METADATA file of a wheel.
const mostMetadata = 1 << 20

// distribution reads name, version and licence of a Python distribution.
func distribution(file string) (s hardware.Tables, err error) {
	text, err := input.Read(file, mostMetadata)
	if err != nil {
		return s, err
	}
	header, _ := textproto.NewReader(bufio.NewReader(bytes.NewReader(text))).ReadMIMEHeader() // up to what is no header
	s = hardware.Tables{
		Package: header.Get("Name"), Version: header.Get("Version"), Licence: cmp.Or(header.Get("License-Expression"), header.Get("License")),
	}
	if s.Package == "" || s.Version == "" || s.Licence == "" {
		return s, unit.Failf("%s names no package, version or licence: give {source} NAME,VERSION,LICENCE", file)
	}
	return s, nil
}
