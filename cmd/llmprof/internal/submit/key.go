package submit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"llmprof/internal/atomicfile"
	"llmprof/internal/input"
)

// A Key is what shards are computed from. Those of one key can be put together.
type Key struct {
	Program  string          `json:"program"`  // hash of the executable; "" where the machines have programs of their own
	Settings string          `json:"settings"` // hash of the settings
	Files    []input.Content `json:"files"`    // all that were read, in order; machines may have them under other names
}

// NewKey is the key of a program's settings and of the files that it has read.
func NewKey(program string, settings []string, files []input.Content) (*Key, error) {
	k := &Key{Files: files}
	if program != "" {
		var err error
		if k.Program, err = input.Sum(program); err != nil {
			return nil, fmt.Errorf("reading the program: %w", err)
		}
	}
	h := sha256.New()
	for _, s := range settings {
		fmt.Fprintf(h, "%d %s\n", len(s), s)
	}
	k.Settings = hex.EncodeToString(h.Sum(nil))
	return k, nil
}

// Name is short and differs between keys.
func (k *Key) Name() string {
	h := sha256.New()
	fmt.Fprintln(h, k.Program, k.Settings)
	for _, f := range k.Files {
		fmt.Fprintln(h, f.SHA256)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// differs says in what a key differs from that of shards that were computed before; "" where it does not.
func (k *Key) differs(before *Key) string {
	if k.Program != "" && before.Program != "" && k.Program != before.Program {
		return "another build of llmprof computed them"
	}
	if k.Settings != before.Settings {
		return "the settings were others"
	}
	for i := range max(len(k.Files), len(before.Files)) {
		switch {
		case i >= len(before.Files):
			return k.Files[i].Name + " was not read then"
		case i >= len(k.Files):
			return before.Files[i].Name + " is not read now"
		case k.Files[i].SHA256 != before.Files[i].SHA256:
			return "the contents of " + k.Files[i].Name + " were others"
		}
	}
	return ""
}

// keyFile is where a folder says what its shards are computed from.
const keyFile = "key.json"

// Claim sees that the shards in the folder, if there are any, are of its key. A folder without shards gets the key if
// write is set.
func (f *Folder) Claim(write bool) error {
	file := filepath.Join(f.Dir, keyFile)
	text, err := input.ReadUnrecorded(file, most)
	why := ""
	switch {
	case errors.Is(err, fs.ErrNotExist) && !f.used():
		if !write {
			return nil
		}
		if text, err = json.Marshal(f.Key); err == nil {
			err = os.MkdirAll(f.Dir, 0o777)
		}
		if err == nil {
			err = atomicfile.WriteFile(file, append(text, '\n'), 0o666)
		}
		if err != nil {
			return fmt.Errorf("the folder of the shards: %w", err)
		}
		return nil
	case err != nil:
		why = fmt.Sprintf("its %s, which says what they are, cannot be read: %v", keyFile, input.Cause(err))
	default:
		var before Key
		if err := errors.Join(limits.JSON(string(text)), json.Unmarshal(text, &before)); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		why = f.Key.differs(&before)
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf(
		"the shards in %s are of another command: %s. Give another --shard-dir, or remove that folder to have them computed anew", f.Dir, why)
}

// used reports whether the folder has shards.
func (f *Folder) used() bool {
	entries, _ := os.ReadDir(f.Dir) // a folder that is not there has none
	for _, e := range entries {
		if strings.Contains(e.Name(), "-of-") && !strings.HasPrefix(e.Name(), ".") {
			return true
		}
	}
	return false
}
