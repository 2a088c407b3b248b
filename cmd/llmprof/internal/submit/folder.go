// Package submit runs the shards of a command on many machines: it keeps them in a folder
// that the machines share, submits those that are missing, and watches them.
package submit

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"llmprof/internal/atomicfile"
	"llmprof/internal/input"
	"llmprof/plan/sweep"
)

// A Folder keeps the shards of one command. A shard is finished once its record is
// there and its files are those that the record names, byte for byte.
type Folder struct {
	Dir      string
	Shards   int
	Key      *Key
	finished map[int]bool // shards whose results were read and found whole
}

// A record says what a finished shard consists of.
type record struct {
	Files map[string]string `json:"files"` // the SHA-256 of each
	Note  json.RawMessage   `json:"note"`
}

// most is the longest record that is read.
const most = 1 << 20

var limits = input.Limits{Bytes: most, Depth: 32, Values: 1 << 16}

// name is that of a file of shard i, from 1.
func (f *Folder) name(i int, what string) string {
	return filepath.Join(f.Dir, fmt.Sprintf("%05d-of-%05d.%s", i, f.Shards, what))
}

// read reads the record of a shard; nil where there is none that can be read, since the shard
// is then computed again.
func (f *Folder) read(i int) *record {
	text, err := input.Read(f.name(i, "json"), most)
	var r record
	if err != nil || limits.JSON(string(text)) != nil || json.Unmarshal(text, &r) != nil {
		return nil
	}
	return &r
}

// Finished reports whether a shard is.
func (f *Folder) Finished(i int) bool {
	if f.finished[i] {
		return true
	}
	r := f.read(i)
	if r == nil {
		return false
	}
	for what, want := range r.Files {
		if got, err := input.Sum(f.name(i, what)); err != nil || got != want {
			return false
		}
	}
	if f.finished == nil {
		f.finished = map[int]bool{}
	}
	f.finished[i] = true
	return true
}

// Note reads what a finished shard noted of itself.
func (f *Folder) Note(i int, into any) error {
	r := f.read(i)
	if r == nil {
		return fmt.Errorf("shard %d of %d in %s is gone", i, f.Shards, f.Dir)
	}
	return json.Unmarshal(r.Note, into)
}

// Join writes a file of all shards, one after the other.
func (f *Folder) Join(out io.Writer, what string) error {
	for i := 1; i <= f.Shards; i++ {
		if err := f.copy(out, i, what); err != nil {
			return err
		}
	}
	return nil
}

func (f *Folder) copy(out io.Writer, i int, what string) error {
	file, err := os.Open(f.name(i, what))
	if err != nil {
		return fmt.Errorf("shard %d of %d: %w", i, f.Shards, err)
	}
	defer file.Close()
	if _, err = io.Copy(out, file); err != nil {
		return fmt.Errorf("putting the shards together: %w", err)
	}
	return nil
}

// JoinParquet writes the rows of all shards as one Parquet file.
func (f *Folder) JoinParquet(out io.Writer) error {
	var parts []sweep.File
	for i := 1; i <= f.Shards; i++ {
		file, size, err := input.Open(f.name(i, "rows"))
		if err != nil {
			return fmt.Errorf("shard %d of %d: %w", i, f.Shards, err)
		}
		defer file.Close()
		parts = append(parts, io.NewSectionReader(file, 0, size))
	}
	return sweep.Join(out, parts)
}

// A Part is a shard that is being computed. Its files get their names when it is kept, so
// that a machine that dies leaves nothing that looks finished.
type Part struct {
	folder *Folder
	shard  int
	files  map[string]*atomicfile.File
}

// Begin begins shard i.
func (f *Folder) Begin(i int) (*Part, error) {
	if err := os.MkdirAll(f.Dir, 0o777); err != nil {
		return nil, fmt.Errorf("the folder of the shards: %w", err)
	}
	return &Part{folder: f, shard: i, files: map[string]*atomicfile.File{}}, nil
}

// File makes a file of the shard.
func (p *Part) File(what string) (io.Writer, error) {
	f, err := atomicfile.Create(p.folder.name(p.shard, what), 0o666)
	if err != nil {
		return nil, fmt.Errorf("writing shard %d: %w", p.shard, err)
	}
	p.files[what] = f
	return f, nil
}

// Keep makes the shard a finished one. Its record comes last.
func (p *Part) Keep(note any) (err error) {
	text, err := json.Marshal(note)
	if err != nil {
		return err
	}
	r := record{Files: map[string]string{}, Note: text}
	for what, f := range p.files {
		if err = f.Keep(); err == nil {
			r.Files[what], err = input.Sum(p.folder.name(p.shard, what))
		}
		if err != nil {
			return fmt.Errorf("writing shard %d: %w", p.shard, err)
		}
	}
	text, err = json.Marshal(&r)
	if err != nil {
		return err
	}
	if err := atomicfile.WriteFile(p.folder.name(p.shard, "json"), text, 0o666); err != nil {
		return fmt.Errorf("writing shard %d: %w", p.shard, err)
	}
	return nil
}

// Drop removes what was not kept.
func (p *Part) Drop() {
	for _, f := range p.files {
		_ = f.Drop()
	}
}

// Missing lists the shards that are not finished.
func (f *Folder) Missing() (all []int) {
	for i := 1; i <= f.Shards; i++ {
		if !f.Finished(i) {
			all = append(all, i)
		}
	}
	return all
}

// ParseShard reads "2/8", or "auto/8" in a task of Slurm's job arrays or of a Kubernetes
// Indexed Job, which pass the number of the task in a variable.
func ParseShard(text string, env func(string) string) (s sweep.Shard, err error) {
	if of, ok := strings.CutPrefix(text, "auto/"); ok {
		i, err := task(env)
		if err != nil {
			return s, fmt.Errorf("shard %.40q: %w", text, err)
		}
		text = fmt.Sprintf("%d/%s", i, of)
	}
	return sweep.ParseShard(text)
}

// task is the number of the task, from 1. Slurm's arrays of this program begin with 1,
// Kubernetes' indexes with 0.
func task(env func(string) string) (i int, err error) {
	for _, v := range []struct {
		name  string
		first int
	}{{"SLURM_ARRAY_TASK_ID", 1}, {"JOB_COMPLETION_INDEX", 0}} {
		text := env(v.name)
		if text == "" {
			continue
		}
		if n, err := fmt.Sscanf(text, "%d", &i); n != 1 || err != nil {
			return 0, fmt.Errorf("%s is %.40q, which is no number", v.name, text)
		}
		return i + 1 - v.first, nil
	}
	return 0, fmt.Errorf("neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set: this is no task of an array; give a number in place " +
		"of auto")
}
