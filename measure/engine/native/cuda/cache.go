package cuda

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A Cache keeps cubins between runs. A file is written whole or not at all, and
// one that was damaged since is compiled again.
type Cache struct {
	Folder string // "" keeps nothing
}

// UserCache is the folder llmprof/kernels of the user's cache.
func UserCache() Cache {
	dir, err := os.UserCacheDir()
	if err != nil {
		return Cache{} // no home: compile each time
	}
	return Cache{Folder: filepath.Join(dir, "llmprof", "kernels")}
}

// Compile is c.Compile unless the cache has what it would return. The key is
// everything that the result depends on.
func (k Cache) Compile(c *Compiler, file, source, arch string, defines []string) ([]byte, error) {
	if k.Folder == "" {
		cubin, _, err := c.Compile(file, source, arch, defines)
		return cubin, err
	}
	sum := sha256.Sum256([]byte(strings.Join(append([]string{c.Version, file, source}, compilerOptions(arch, defines)...), "\x00")))
	path := filepath.Join(k.Folder, fmt.Sprintf("%s-%s-%s.cubin", strings.TrimSuffix(filepath.Base(file), ".cu"), arch, hex.EncodeToString(sum[:8])))
	if cubin, err := readSealed(path); err == nil {
		return cubin, nil
	}
	cubin, _, err := c.Compile(file, source, arch, defines)
	if err != nil {
		return nil, err
	}
	_ = writeSealed(path, cubin) // a cache that cannot be written costs the next run a compilation, and this one nothing
	return cubin, nil
}

// readSealed reads what writeSealed wrote: the contents behind their SHA-256.
func readSealed(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(b) <= sha256.Size || sha256.Sum256(b[sha256.Size:]) != [sha256.Size]byte(b) {
		return nil, fmt.Errorf("cuda: %s is damaged", path)
	}
	return b[sha256.Size:], nil
}

// writeSealed writes beside path and renames, so that a reader sees all of the
// file or none.
func writeSealed(path string, contents []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	sum := sha256.Sum256(contents)
	_, err = f.Write(append(sum[:], contents...))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
