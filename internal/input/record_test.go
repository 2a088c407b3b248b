package input

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"llmprof/internal/testkit"
)

// A record has each file that was read once, by its content.
func TestRecord(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	a, b, secret := file("a", "one"), file("b", "two"), file("token", "secret")
	r := Begin()
	for _, path := range []string{b, a, b} {
		_, err := Read(path, 10)
		testkit.Must(t, err)
	}
	_, err := ReadUnrecorded(secret, 10)
	_, absent := Read(filepath.Join(dir, "absent"), 10)
	if err != nil || !errors.Is(absent, os.ErrNotExist) {
		t.Fatal(err, absent)
	}
	Note("https://hub/c", []byte("one"))
	r.End()
	_, err = Read(secret, 10)
	testkit.Must(t, err)
	all, err := r.Contents()
	if err != nil || len(all) != 3 || all[0].Name != b || all[1].Name != a || all[2].SHA256 != all[1].SHA256 ||
		all[0].SHA256 == all[1].SHA256 {
		t.Errorf("%+v, %v", all, err)
	}
	late := Begin()
	defer late.End()
	_, err = Read(a, 10)
	testkit.Must(t, errors.Join(err, os.Remove(a)))
	if _, err := late.Contents(); err == nil {
		t.Error("a file that is gone has contents")
	}
}

// Of a file as large as weights count its beginning, its size and its time.
func TestSumOfLargeFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	at := time.Unix(1e9, 0)
	write := func(size int64, when time.Time, offset int64) string {
		t.Helper()
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		testkit.Must(t, err)
		_, err = f.WriteAt([]byte("x"), offset)
		testkit.Must(t, errors.Join(err, f.Truncate(size), f.Close(), os.Chtimes(path, when, when)))
		sum, err := Sum(path)
		testkit.Must(t, err)
		return sum
	}
	first := write(wholly+1, at, 0)
	if again := write(wholly+1, at, 0); again != first {
		t.Error("one file has two sums")
	}
	for name, other := range map[string]string{
		"size": write(wholly+2, at, 0), "time": write(wholly+1, at.Add(time.Minute), 0), "header": write(wholly+1, at, 1),
	} {
		if other == first {
			t.Errorf("files of another %s have one sum", name)
		}
	}
	if write(wholly, at, wholly-1) == write(wholly, at, wholly-2) || write(1, at, 0) != write(1, at.Add(time.Minute), 0) {
		t.Error("a smaller file is not hashed as a whole, or by its time")
	}
}
