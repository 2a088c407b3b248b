package input

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"llmprof/internal/testkit"
)

var small = Limits{Bytes: 4096, Depth: 4, Values: 50}

// depth is how deep what a parser read is nested, and values how much it is.
func depth(v any) (deep, values int) {
	each := func(inner any) {
		d, n := depth(inner)
		deep, values = max(deep, d), values+n
	}
	switch v := v.(type) {
	case map[string]any:
		for _, inner := range v {
			each(inner)
		}
	case []any:
		for _, inner := range v {
			each(inner)
		}
	case []map[string]any:
		for _, inner := range v {
			each(inner)
		}
	default:
		return 0, 1
	}
	return deep + 1, values + 1
}

// FuzzJSON checks that what passes is within the limits once it is parsed.
func FuzzJSON(f *testing.F) {
	f.Add(`{"a":[[[[1]]]]}`)
	f.Add(`{"a\"[":["]",{}]}`)
	f.Add("[" + strings.Repeat("1,", 60) + "1]")
	f.Fuzz(func(t *testing.T, text string) {
		var v any
		if small.JSON(text) != nil || json.Unmarshal([]byte(text), &v) != nil {
			return
		}
		if deep, values := depth(v); deep > small.Depth || values > 2*small.Values+1 {
			t.Errorf("%d deep, %d values", deep, values)
		}
	})
}

// FuzzTOML checks that TOML that passes is within the limits once it is parsed. A header and a key
// may each have the allowed depth.
func FuzzTOML(f *testing.F) {
	f.Add("a = [[[[[1]]]]]")
	f.Add("a = [\"\"\"x\"\"\"\", [[[[1]]]]]")
	f.Add("a.b.c.d.e.f = 1")
	f.Add("[a.b.c]\nd.e.f = {g.h = 1}")
	f.Add("'''a''' = '#' # [[[[[\nb = '''\n[[[[''']")
	f.Fuzz(func(t *testing.T, text string) {
		var v map[string]any
		if small.TOML(text) != nil {
			return
		}
		if _, err := toml.Decode(text, &v); err != nil {
			return
		}
		if deep, values := depth(v); deep > 3*small.Depth || values > 10*small.Values {
			t.Errorf("%d deep, %d values", deep, values)
		}
	})
}

// Just below a limit passes, just above does not, at its place.
func TestLimits(t *testing.T) {
	for text, want := range map[string]string{
		"a = [[[[1]]]]": "", "a = [[[[[1]]]]]": "line 1, column 9: nested more than 4 deep", "\na = \"\"\"x[[[[[\"\"\"\"\" # [[[[[\n": "",
		"a = [\"\"\"x\"\"\"\", [[[[1]]]]]":       "line 1, column 19: nested more than 4 deep",
		"a.b.c.d.e.f=1":                          "line 1, column 10: nested more than 4 deep",
		"a = 1.5\nb = [1.5, 2.5, 3.5, 4.5, 5.5]": "", strings.Repeat("a=1\n", 51): "line 51, column 2: more than 50 values",
		strings.Repeat("#", 5000): "line 1, column 1: the text is larger than 4.1 kB, the most that is read",
	} {
		got := ""
		if err := small.TOML(text); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.60q: %q, want %q", text, got, want)
		}
	}
	if err := small.JSON(`{"a":"[[[[[[\"{{{{{{"}`); err != nil {
		t.Error(err)
	}
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if _, err := Read(path, 10); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	for n, fits := range map[int]bool{0: true, 10: true, 11: false} {
		if err := os.WriteFile(path, bytes.Repeat([]byte("a"), n), 0o600); err != nil {
			t.Fatal(err)
		}
		if data, err := Read(path, 10); (err == nil) != fits || fits && len(data) != n {
			t.Errorf("%d bytes: %q, %v", n, data, err)
		}
	}
	if _, err := Read(filepath.Dir(path), 10); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Error(err)
	}
}

// The files of a folder are found whatever its name is.
func TestFiles(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "[a]*")
	testkit.Must(t, os.Mkdir(folder, 0o755))
	for _, name := range []string{"b.json", "a.json", "a.txt"} {
		testkit.Must(t, os.WriteFile(filepath.Join(folder, name), nil, 0o600))
	}
	found, err := Files(folder, "*.json")
	if want := []string{filepath.Join(folder, "a.json"), filepath.Join(folder, "b.json")}; err != nil || !slices.Equal(found, want) {
		t.Errorf("%v, %v, want %v", found, err, want)
	}
	if found, err := Files(filepath.Join(folder, "none"), "*"); err != nil || len(found) > 0 {
		t.Errorf("%v, %v of no folder", found, err)
	}
}

// TestByteOrderMark reads a text as Windows' editors save it: a mark of UTF-8 is no part of it, and UTF-16 is refused by name.
func TestByteOrderMark(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	for text, want := range map[string]string{"\xef\xbb\xbf{}": "{}", "\xef\xbb\xbf": "", "\xef\xbb": "\xef\xbb", "{}": "{}"} {
		testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
		if got, err := Read(file, 8); err != nil || string(got) != want {
			t.Errorf("%q is read as %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"\xff\xfe{\x00", "\xfe\xff\x00{"} {
		testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
		if _, err := Read(file, 8); err == nil || !strings.Contains(err.Error(), "UTF-16") {
			t.Errorf("%q: error %v; want one with UTF-16", text, err)
		}
	}
}

// TestPacked reads what gzip packed as the text that it is of, and not more of it than of a text.
func TestPacked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json.gz")
	pack := func(text string) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := w.Write([]byte(text))
		testkit.Must(t, err)
		testkit.Must(t, w.Close())
		return b.Bytes()
	}
	whole := strings.Repeat("a", 1000)
	for text, want := range map[string]string{"": "", "{}": "{}", "\xef\xbb\xbf{}": "{}", whole: whole} {
		testkit.Must(t, os.WriteFile(file, slices.Concat(pack(text), pack("")), 0o600)) // A file of gzip may have several parts.
		if got, err := Read(file, 1000); err != nil || string(got) != want {
			t.Errorf("%.20q is read as %.20q, %v", text, got, err)
		}
	}
	packed := pack(whole)
	lying := append(packed[:len(packed)-4:len(packed)-4], 0xff, 0xff, 0xff, 0x7f)
	for what, text := range map[string][]byte{
		"larger than 1.0 kB": pack(whole + "a"), "it is cut off": packed[:len(packed)-9], "is damaged: gzip: invalid checksum": lying,
		"ends in the middle": []byte("\x1f\x8b"), "what follows the compressed text was not written by gzip": append(pack(whole), "ab"...),
		"the compressed file ends": append(pack(whole), packed[:5]...),
	} {
		testkit.Must(t, os.WriteFile(file, text, 0o600))
		if got, err := Read(file, 1000); err == nil || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), file) {
			t.Errorf("%.20q, error %v; want one with %q", got, err, what)
		}
	}
}

// TestPackedBomb gives nothing of a window of a text that is far larger than what it was packed to, and all that is before it.
func TestPackedBomb(t *testing.T) {
	honest := make([]byte, windowBytes)
	_, err := rand.NewChaCha8([32]byte{1}).Read(honest)
	testkit.Must(t, err)
	for what, text := range map[string]struct {
		text    [][]byte
		given   int
		refused bool
	}{
		"at once":           {text: [][]byte{make([]byte, windowBytes)}, refused: true},
		"parts":             {text: [][]byte{make([]byte, windowBytes/2), {}, make([]byte, windowBytes)}, refused: true},
		"after much":        {text: [][]byte{honest, make([]byte, windowBytes)}, given: windowBytes, refused: true},
		"less than that":    {text: [][]byte{make([]byte, windowBytes-1)}, given: windowBytes - 1},
		"much, then little": {text: [][]byte{honest, make([]byte, 100)}, given: windowBytes + 100},
	} {
		var packed bytes.Buffer
		for _, part := range text.text {
			w, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
			testkit.Must(t, err)
			_, err = w.Write(part)
			testkit.Must(t, err)
			testkit.Must(t, w.Close())
		}
		from, err := Unpack(&packed)
		testkit.Must(t, err)
		given, err := io.Copy(io.Discard, from)
		if int(given) != text.given || (err != nil) != text.refused || err != nil && !strings.Contains(err.Error(), "100 times its size") {
			t.Errorf("%s: %d bytes, %v", what, given, err)
		}
	}
}

// A number of bytes is told in two digits.
func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 999: "999 B", 1000: "1.0 kB", 9949: "9.9 kB", 9950: "10 kB", 999_499: "999 kB", 999_500: "1.0 MB", 8 << 20: "8.4 MB",
		64 << 20: "67 MB", 1 << 40: "1.1 TB",
	} {
		if got := Size(n); got != want {
			t.Errorf("%d bytes are told as %s, want %s", n, got, want)
		}
	}
}
