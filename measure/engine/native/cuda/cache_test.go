package cuda

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// What was written comes back, and a file that was damaged since does not.
func TestSealed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "k.cubin")
	want := []byte("machine code")
	if err := writeSealed(path, want); err != nil {
		t.Fatal(err)
	}
	got, err := readSealed(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("got %q, %v; want %q", got, err, want)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		bad := bytes.Clone(whole)
		bad[i] ^= 1
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readSealed(path); err == nil {
			t.Fatalf("byte %d was turned and nobody noticed", i)
		}
		if err := os.WriteFile(path, whole[:i], 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readSealed(path); err == nil {
			t.Fatalf("%d bytes of %d passed for the whole", i, len(whole))
		}
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".new-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
