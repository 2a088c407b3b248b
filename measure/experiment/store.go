package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"llmprof/internal/atomicfile"
	"llmprof/internal/input"
	"llmprof/measure/result"
)

// A Store is a folder of result files, with a file for each run that failed.
type Store struct{ Dir string }

// failureExtension is the ending of the name of a failure's file.
const failureExtension = ".failed"

// mostFailure bounds the file of a failure, which ends with the log of an engine.
const mostFailure = 4 << 20

func (s Store) open() error {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return fmt.Errorf("the results folder %s: %w", s.Dir, input.Cause(err))
	}
	if err := atomicfile.Probe(filepath.Join(s.Dir, "probe")); err != nil {
		return fmt.Errorf("the results folder %s cannot be written: %w", s.Dir, input.Cause(err))
	}
	return nil
}

// An UnstoredError has results that were measured and could not be written: who gets the error is the last to have them.
type UnstoredError struct {
	Results []*result.Result // as their files would have been
	Err     error
}

func (e *UnstoredError) Error() string { return e.Err.Error() }

func (e *UnstoredError) Unwrap() error { return e.Err }

// unstored is err with the results that it keeps from being written, unless it is about what they hold.
func unstored(results []*result.Result, err error) error {
	path, link := (*fs.PathError)(nil), (*os.LinkError)(nil)
	if errors.As(err, &path) || errors.As(err, &link) {
		return &UnstoredError{results, err}
	}
	return err
}

// Lacks lists the trials that have no results in the store.
func (s Store) Lacks(trials []Trial) (left []int) {
	for i := range trials {
		if done, why := s.finished(&trials[i]); !done || why != nil {
			left = append(left, i)
		}
	}
	return left
}

// finished reports whether the store has every process's result of a trial. Of
// files under its name that are not its results, why says what is wrong.
func (s Store) finished(t *Trial) (done bool, why error) {
	processes := 1
	for p := 0; p < processes; p++ {
		file := result.Find(s.Dir, t.ID, p)
		if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		r, err := result.Read(file)
		if err != nil {
			return false, err
		}
		if !t.owns(r, p) {
			return false, fmt.Errorf("%s: it is of other settings (config_hash %.12s, cycle %d)", file, r.Provenance.Hash, r.Cycle)
		}
		processes = r.Processes
	}
	return true, nil
}

func (s Store) failureFile(t *Trial) string { return filepath.Join(s.Dir, t.ID+failureExtension) }

// failure is what was recorded of a trial that failed before, nil if it did not.
func (s Store) failure(t *Trial) *result.Failure {
	f, err := readFailure(s.failureFile(t))
	if err != nil || f.Hash != t.Hash {
		return nil
	}
	return &f
}

func readFailure(file string) (f result.Failure, err error) {
	data, err := input.Read(file, mostFailure)
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err == nil && f.Schema != result.FailureSchema {
		err = fmt.Errorf("schema %.60q: this version reads %q", f.Schema, result.FailureSchema)
	}
	return f, err
}

// Failures are all runs that failed and were not run again since, by the names
// of their files.
func (s Store) Failures() ([]result.Failure, error) {
	files, err := input.Files(s.Dir, "*"+failureExtension)
	if err != nil {
		return nil, fmt.Errorf("reading the failures: %w", err)
	}
	var all []result.Failure
	var errs []error
	for _, file := range files {
		if f, err := readFailure(file); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file, err))
		} else {
			all = append(all, f)
		}
	}
	return all, errors.Join(errs...)
}

func (s Store) fail(t *Trial, started time.Time, cause error) error {
	f := result.Failure{
		Schema: result.FailureSchema, ID: t.ID, Cycle: t.Cycle, Hash: t.Hash, Settings: t.Settings,
		Started: started, Ended: time.Now().UTC(), Attempts: 1, Errors: t.Point.secrets().Words(chain(cause)),
	}
	if before := s.failure(t); before != nil {
		f.Attempts += before.Attempts
	}
	data, err := json.MarshalIndent(&f, "", "  ")
	if err == nil {
		err = atomicfile.WriteFile(s.failureFile(t), append(data, '\n'), 0o666)
	}
	if err != nil {
		return fmt.Errorf("recording the failure of %s: %w", t.ID, err)
	}
	return nil
}

// chain is an error's text, then those of what it wraps where they say more.
func chain(err error) []string {
	var texts []string
	for ; err != nil; err = errors.Unwrap(err) {
		if text := err.Error(); len(texts) == 0 || !strings.Contains(texts[len(texts)-1], text) {
			texts = append(texts, text)
		}
	}
	return texts
}

// keep writes the results of a trial, whose processes they are, and forgets that
// it ever failed.
func (s Store) keep(t *Trial, file string, results []*result.Result) error {
	if len(results) == 0 {
		return errors.New("the measurement gave no result and no error")
	}
	for i, r := range results {
		if r == nil {
			return fmt.Errorf("process %d of %d gave no result and no error", i, len(results))
		}
	}
	signed := t.sign(results, file)
	for _, r := range signed {
		if err := s.setAside(t, r.Process); err != nil {
			return unstored(signed, err)
		}
		if _, err := result.Write(s.Dir, r); err != nil {
			return unstored(signed, err)
		}
	}
	stale, err := input.Files(s.partial(), "*"+result.Extension)
	stale = slices.DeleteFunc(stale, func(file string) bool { return !strings.HasPrefix(filepath.Base(file), t.ID+".p") })
	if err != nil {
		return fmt.Errorf("forgetting an old failure: %w", err)
	}
	for _, file := range append(stale, s.failureFile(t)) {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forgetting an old failure: %w", err)
		}
	}
	return nil
}

// asideExtension is the ending of the new name of a file that was in the place of a
// result.
const asideExtension = ".aside"

// setAside gives another name to what stands where a process's result goes, unless
// it is a result of the same trial: it may be of a newer version of llmprof, which
// can read it.
func (s Store) setAside(t *Trial, process int) error {
	file := result.Find(s.Dir, t.ID, process)
	if _, err := os.Lstat(file); err != nil {
		return nil //nolint:nilerr // writing there says what else is wrong
	}
	if r, err := result.Read(file); err == nil && t.owns(r, process) {
		return nil
	}
	aside := file + asideExtension
	for n := 2; ; n++ {
		if _, err := os.Lstat(aside); err != nil {
			break
		}
		aside = fmt.Sprintf("%s%s%d", file, asideExtension, n)
	}
	if err := os.Rename(file, aside); err != nil {
		return fmt.Errorf("setting aside what stands where a result goes: %w", err)
	}
	return nil
}

func (t *Trial) owns(r *result.Result, process int) bool {
	return r.Provenance.Hash == t.Hash && r.Cycle == t.Cycle && r.ID == t.ID && r.Process == process
}

// partialFolder is the folder within a store of what runs saw that failed or were
// interrupted. They are results in form, and of no finished run.
const partialFolder = "partial"

func (s Store) partial() string { return filepath.Join(s.Dir, partialFolder) }

// Partial are the results of runs that did not finish, as far as they can be read.
func (s Store) Partial() []*result.Result {
	all, _ := result.ReadFolder(s.partial()) // most stores have no such folder
	return all
}

// keepPartial stores what a run saw that did not finish, in the place of what an
// earlier attempt saw.
func (s Store) keepPartial(t *Trial, file string, results []*result.Result) error {
	results = slices.DeleteFunc(slices.Clone(results), func(r *result.Result) bool { return r == nil })
	if len(results) == 0 {
		return nil
	}
	const what = "keeping what a run saw that did not finish: %w"
	apart, signed := Store{Dir: s.partial()}, t.sign(results, file)
	if err := apart.open(); err != nil {
		return &UnstoredError{signed, fmt.Errorf(what, err)}
	}
	for _, r := range signed {
		if _, err := result.Write(apart.Dir, r); err != nil {
			return unstored(signed, fmt.Errorf(what, err))
		}
	}
	return nil
}

// unfinished stores what a run saw that did not finish, and that it failed unless
// it was interrupted. Its error is cause with what else went wrong.
func (s Store) unfinished(ctx context.Context, t *Trial, started time.Time, file string, results []*result.Result, cause error) error {
	more := s.keepPartial(t, file, results)
	if ctx.Err() == nil {
		more = errors.Join(more, s.fail(t, started, cause))
	}
	if more != nil {
		return errors.Join(cause, more)
	}
	return cause
}

// sign names the processes of the trial after it, and takes the secrets out of what
// they report: results pass here on their way to files and to whoever asked.
func (t *Trial) sign(results []*result.Result, file string) []*result.Result {
	signed := make([]*result.Result, len(results))
	secrets := t.Point.secrets()
	for i, r := range results {
		own := *r
		secrets.Struct(&own)
		own.Provenance.Command = secrets.Words(r.Provenance.Command)
		own.ID, own.Cycle, own.Process, own.Processes = t.ID, t.Cycle, i, len(results)
		own.Provenance.Hash, own.Provenance.Settings, own.Provenance.Config = t.Hash, t.Settings, file
		signed[i] = &own
	}
	return signed
}
