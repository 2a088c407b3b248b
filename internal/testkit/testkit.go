// Package testkit has what tests of several packages need. Only tests import it.
package testkit

import (
	"compress/gzip"
	"io"
	"os"
	"reflect"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Update reports whether tests write their golden files anew: UPDATE_GOLDEN=1 go test ./...
func Update() bool { return os.Getenv("UPDATE_GOLDEN") != "" }

// Tests keep their garbage longer, as the program does, which saves a tenth of their time, unless it is much.
var _, _ = debug.SetGCPercent(400), debug.SetMemoryLimit(1 << 30)

// Cases is how many of many like cases a test runs: few, or all of them with LLMPROF_TEST_LONG=1, which .ci/run sets.
// No test reads that variable by itself.
func Cases(few, all int) int {
	if os.Getenv("LLMPROF_TEST_LONG") == "" {
		return few
	}
	return all
}

// Long skips what takes long however few of its cases run, unless LLMPROF_TEST_LONG=1 asks for it.
func Long(t testing.TB, what string) {
	t.Helper()
	if Cases(0, 1) == 0 {
		t.Skipf("LLMPROF_TEST_LONG=1 runs %s", what)
	}
}

// Must ends the test if there is an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Golden compares a text with that of a file, or writes the file anew.
func Golden(t testing.TB, path, got string) {
	t.Helper()
	if Update() {
		Must(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	Must(t, err)
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got); if the change is meant, make golden and read it:\n%s", path, diff)
	}
}

// Unzipped is the contents of a file that gzip has packed.
func Unzipped(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	Must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	Must(t, err)
	data, err := io.ReadAll(z)
	Must(t, err)
	return data
}

// Await waits up to half a minute for a condition that another process fulfils.
func Await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range 3000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("waited in vain for %s", what)
}

// Fill gives every field of v a value that is not zero.
func Fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		Fill(v.Elem())
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() {
				Fill(field)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		Fill(v.Index(0))
	case reflect.Map:
		elem := reflect.New(v.Type().Elem()).Elem()
		Fill(elem)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("x"), elem)
	case reflect.String:
		v.SetString("x")
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8: // JSON text
		v.SetUint('1')
	case reflect.Uint64:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Bool:
		v.SetBool(true)
	}
}
