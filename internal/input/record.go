package input

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"sync"
)

// A Record notes which files this process reads through the package, in the order in which it first reads each.
// What a result depends on is then known without a list of the flags and settings that name files.
type Record struct {
	known map[string]bool
	files []Content
}

// A Content is what a file had in it.
type Content struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"` // "" until it is asked for
}

// records are those that are being kept; the lock is of what they hold too.
var records struct {
	sync.Mutex
	all []*Record
}

// Begin begins a Record.
func Begin() *Record {
	r := &Record{known: map[string]bool{}}
	records.Lock()
	defer records.Unlock()
	records.all = append(records.all, r)
	return r
}

// End ends the record: what is read from now on is not noted.
func (r *Record) End() {
	records.Lock()
	defer records.Unlock()
	records.all = slices.DeleteFunc(records.all, func(x *Record) bool { return x == r })
}

// Contents are what the files of the record have in them.
func (r *Record) Contents() ([]Content, error) {
	records.Lock()
	defer records.Unlock()
	for i := range r.files {
		f := &r.files[i]
		if f.SHA256 != "" {
			continue
		}
		var err error
		if f.SHA256, err = sum(f.Name); err != nil {
			return nil, fmt.Errorf("reading again what the command depends on: %w", err)
		}
	}
	return slices.Clone(r.files), nil
}

// Note notes a text that was read from elsewhere than a file.
func Note(name string, text []byte) {
	sum := sha256.Sum256(text)
	note(Content{name, hex.EncodeToString(sum[:])})
}

func note(c Content) {
	records.Lock()
	defer records.Unlock()
	for _, r := range records.all {
		if !r.known[c.Name] {
			r.known[c.Name] = true
			r.files = append(r.files, c)
		}
	}
}

// wholly is how large a file may be of which every byte is hashed. Larger ones are weights of models: of them count the
// size, the time of the last change, and the beginning, where their headers are.
const (
	wholly    = 64 << 20
	beginning = 4 << 20
)

// Sum is the SHA-256 of what a regular file has in it, which counts as read then.
func Sum(path string) (string, error) {
	text, err := sum(path)
	if err == nil {
		note(Content{path, text})
	}
	return text, err
}

func sum(path string) (string, error) {
	f, size, err := open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if size > wholly {
		info, err := f.Stat()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%d %d\n", size, info.ModTime().Unix())
		size = beginning
	}
	if _, err := io.Copy(h, io.LimitReader(f, size)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
