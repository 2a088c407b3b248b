package cuda

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"llmprof/internal/atomicfile"
	"llmprof/internal/input"
)

// A Cache keeps cubins between runs. A file is written whole or not at all. One that is
// damaged, that others may have written, or that the driver refuses is compiled anew.
type Cache struct {
	Folder string       // "" keeps nothing
	Note   func(string) // takes a line for each file that was not used, by several goroutines; nil for nobody
}

// A Source is a program, and what else a compilation of it depends on.
type Source struct {
	File    string // in messages
	Text    string
	Arch    string
	Defines []string // NAME=VALUE
}

// UserCache is the folder llmprof/kernels of the user's cache.
func UserCache() Cache {
	dir, err := os.UserCacheDir()
	if err != nil {
		return Cache{} // no home: compile each time
	}
	return Cache{Folder: filepath.Join(dir, "llmprof", "kernels")}
}

// Compile is c.Compile unless the cache has what it would return.
func (k Cache) Compile(c *Compiler, s Source) ([]byte, error) {
	cubin, _, err := k.take(k.path(c, s), s.with(c))
	return cubin, err
}

// Load puts a program on a GPU. A cached program that the driver refuses, as a driver older
// than the compiler does, is compiled anew.
func (k Cache) Load(dev *Device, c *Compiler, s Source) (*Module, error) {
	return k.load(dev, k.path(c, s), s.with(c))
}

func (s *Source) with(c *Compiler) func() ([]byte, error) {
	return func() ([]byte, error) {
		cubin, _, err := c.Compile(s.File, s.Text, s.Arch, s.Defines)
		return cubin, err
	}
}

// path is where a program is kept, "" if none is. The key is everything that it depends on.
func (k Cache) path(c *Compiler, s Source) string {
	if k.Folder == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(append([]string{c.Version, s.File, s.Text}, compilerOptions(s.Arch, s.Defines)...), "\x00")))
	return filepath.Join(k.Folder, fmt.Sprintf("%s-%s-%s.cubin", strings.TrimSuffix(filepath.Base(s.File), ".cu"), s.Arch, hex.EncodeToString(
		sum[:8])))
}

func (k Cache) load(dev *Device, path string, compile func() ([]byte, error)) (*Module, error) {
	cubin, kept, err := k.take(path, compile)
	if err != nil {
		return nil, err
	}
	m, err := dev.Load(cubin)
	if !kept || !refusesImage(err) {
		return m, err
	}
	k.note("%s was compiled anew: %v", path, err)
	if cubin, err = compile(); err != nil {
		return nil, err
	}
	_ = writeSealed(path, cubin)
	return dev.Load(cubin)
}

// take returns the contents of path, or what compile makes. If the cache cannot be
// written, the next run compiles again.
func (k Cache) take(path string, compile func() ([]byte, error)) (cubin []byte, kept bool, err error) {
	if path == "" {
		cubin, err = compile()
		return cubin, false, err
	}
	strangers := checkFolder(k.Folder)
	if strangers != nil {
		k.note("kernels are compiled anew and not kept: %v", strangers)
	} else if cubin, err = readSealed(path); err == nil {
		return cubin, true, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		k.note("kernels were compiled anew: %v", err)
	}
	if cubin, err = compile(); err == nil && strangers == nil {
		_ = writeSealed(path, cubin)
	}
	return cubin, false, err
}

func (k Cache) note(format string, args ...any) {
	if k.Note != nil {
		k.Note(fmt.Sprintf(format, args...))
	}
}

// checkFolder says why others could have put files into a folder; one that is not there
// yet is made by writeSealed.
func checkFolder(folder string) error {
	info, err := os.Stat(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return checkOwner(folder, info)
}

// mostSealed is more than any program has, in bytes.
const mostSealed = 256 << 20

// readSealed reads what writeSealed wrote: the contents behind their SHA-256.
func readSealed(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > mostSealed {
		return nil, fmt.Errorf("%s is no regular file of at most %s", path, input.Size(mostSealed))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, err
	}
	if err := checkOwner(path, info); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, mostSealed))
	if err != nil {
		return nil, err
	}
	if len(b) <= sha256.Size || sha256.Sum256(b[sha256.Size:]) != [sha256.Size]byte(b) {
		return nil, fmt.Errorf("%s is damaged", path)
	}
	return b[sha256.Size:], nil
}

// writeSealed writes contents behind their checksum.
func writeSealed(path string, contents []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	sum := sha256.Sum256(contents)
	return atomicfile.WriteFile(path, append(sum[:], contents...), 0o600)
}
