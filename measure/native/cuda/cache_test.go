package cuda

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"llmprof/internal/testkit"
)

// The cache returns what was written, and rejects a file that was damaged since.
func TestSealed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "k.cubin")
	want := []byte("machine code")
	testkit.Must(t, writeSealed(path, want))
	got, err := readSealed(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("got %q, %v; want %q", got, err, want)
	}
	whole, err := os.ReadFile(path)
	testkit.Must(t, err)
	for i := range whole {
		bad := bytes.Clone(whole)
		bad[i] ^= 1
		testkit.Must(t, os.WriteFile(path, bad, 0o600))
		if _, err := readSealed(path); err == nil {
			t.Fatalf("byte %d was turned and nobody noticed", i)
		}
		testkit.Must(t, os.WriteFile(path, whole[:i], 0o600))
		if _, err := readSealed(path); err == nil {
			t.Fatalf("%d bytes of %d passed for the whole", i, len(whole))
		}
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*.tmp"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A cached program is used only if nobody else may write its file and folder. Otherwise the program
// is compiled again, and replaces the cached one if the folder is safe.
func TestKeptByOthers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes are of Unix")
	}
	planted, compiled := []byte("planted"), []byte("compiled")
	for name, c := range map[string]struct {
		folder, file os.FileMode
		change       func(path string) error
		want         string // what is noted, beside the path
		taken, after []byte
	}{
		"safe":           {0o700, 0o600, nil, "", planted, planted},
		"readable":       {0o755, 0o644, nil, "", planted, planted},
		"shared folder":  {0o777, 0o600, nil, "may be written by others (mode -rwxrwxrwx)", compiled, planted},
		"group's folder": {0o775, 0o600, nil, "may be written by others", compiled, planted},
		"shared file":    {0o700, 0o666, nil, "may be written by others (mode -rw-rw-rw-)", compiled, compiled},
		"damaged": {0o700, 0o600, func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) }, "is damaged", compiled,
			compiled},
		"gone": {0o700, 0o600, os.Remove, "", compiled, compiled},
		"link": {0o700, 0o600, func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.Symlink(path+".old", path))
		}, "no regular file", compiled, compiled},
		"device": {0o700, 0o600, func(path string) error {
			return errors.Join(os.Remove(path), os.Symlink("/dev/zero", path))
		}, "no regular file", compiled, compiled},
	} {
		t.Run(name, func(t *testing.T) {
			var notes []string
			k := Cache{Folder: filepath.Join(t.TempDir(), "kernels"), Note: func(text string) { notes = append(notes, text) }}
			path := filepath.Join(k.Folder, "k.cubin")
			err := errors.Join(writeSealed(path, planted), os.Chmod(path, c.file), os.Chmod(k.Folder, c.folder))
			if err == nil && c.change != nil {
				err = c.change(path)
			}
			testkit.Must(t, err)
			got, kept, err := k.take(path, func() ([]byte, error) { return compiled, nil })
			if err != nil || !bytes.Equal(got, c.taken) || kept != bytes.Equal(c.taken, planted) {
				t.Errorf("got %q, kept %v, %v; want %q", got, kept, err, c.taken)
			}
			text := strings.Join(notes, "; ")
			if !strings.Contains(text, c.want) || (c.want == "") != (text == "") || c.want != "" && !strings.Contains(text, k.Folder) {
				t.Errorf("noted %q, want %q with the path", text, c.want)
			}
			if left, err := readSealed(path); c.file == 0o600 && (err != nil || !bytes.Equal(left, c.after)) {
				t.Errorf("%q, %v are left, want %q", left, err, c.after)
			}
		})
	}
}

// A cached program that the driver refuses is compiled again, once. A compiled program that it
// refuses is an error.
func TestRefusedByDriver(t *testing.T) {
	const noBinary = 209 // CUDA_ERROR_NO_BINARY_FOR_GPU
	for _, good := range []bool{true, false} {
		s := NewStandIn()
		loaded, compilations := 0, 0
		s.Device.d.moduleLoad = func(h *uintptr, image unsafe.Pointer) int32 {
			loaded++
			if *(*byte)(image) != 'n' || !good {
				return noBinary
			}
			*h = 1
			return 0
		}
		var notes []string
		k := Cache{Folder: filepath.Join(t.TempDir(), "kernels"), Note: func(text string) { notes = append(notes, text) }}
		path := filepath.Join(k.Folder, "k.cubin")
		testkit.Must(t, writeSealed(path, []byte("old")))
		_, err := k.load(s.Device, path, func() ([]byte, error) { compilations++; return []byte("new"), nil })
		if (err == nil) != good || loaded != 2 || compilations != 1 || len(notes) != 1 || !strings.Contains(notes[0], path) {
			t.Errorf("good %v: %v after %d loads and %d compilations, noted %q", good, err, loaded, compilations, notes)
		}
		if left, err := readSealed(path); err != nil || string(left) != "new" {
			t.Errorf("%q, %v are kept now", left, err)
		}
	}
}
