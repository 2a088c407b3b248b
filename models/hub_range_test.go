package models_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"llmprof/internal/testkit"
	"llmprof/models"
)

// repository serves files as the hub does, with ranges, and notes how many bytes of each it sent.
func repository(t testing.TB, files map[string][]byte) (url string, sent map[string]int64) {
	t.Helper()
	sent = make(map[string]int64)
	seen := make(chan struct{}, 1)
	hub := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Repo-Commit", commit)
		name := path.Base(r.URL.Path)
		data, ok := files[name]
		if strings.Contains(r.URL.Path, "/api/models/") {
			data, ok = listing(files), true
		}
		if !ok {
			w.Header().Set("X-Error-Code", "EntryNotFound")
			w.WriteHeader(http.StatusNotFound)
			return
		}
		c := &counting{ResponseWriter: w}
		http.ServeContent(c, r, "", time.Time{}, bytes.NewReader(data))
		seen <- struct{}{}
		sent[name] += c.n
		<-seen
	})
	return hub.URL, sent
}

type counting struct {
	http.ResponseWriter
	n int64
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.n += int64(n)
	return n, err
}

func listing(files map[string][]byte) []byte {
	type sibling struct {
		Name string `json:"rfilename"`
	}
	var all struct {
		Siblings []sibling `json:"siblings"`
	}
	for name := range files {
		all.Siblings = append(all.Siblings, sibling{name})
	}
	text, _ := json.Marshal(all)
	return text
}

// bytesOf is a layout's safetensors file, with zeros for weights.
func (l *layout) bytesOf() []byte {
	text := append(bytes.Clone(l.Header), bytes.Repeat([]byte(" "), -len(l.Header)&7)...)
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	return append(file, make([]byte, l.Size-int64(len(file)))...)
}

// Headers that come by ranges make the same model as the files themselves, and no weights are sent.
func TestHubHeaders(t *testing.T) {
	for _, l := range layouts(t) {
		local, err := models.Resolver{}.Resolve(t.Context(), l.write(t))
		testkit.Must(t, err)
		file := l.bytesOf()
		url, sent := repository(t, map[string][]byte{"config.json": l.Config, "model.safetensors": file})
		r := at(t, url)
		for _, r.Hub.Offline = range []bool{false, true} {
			m, err := r.Resolve(t.Context(), "o/n")
			testkit.Must(t, err)
			if m.StoredBytes() != local.StoredBytes() || m.Stored != local.Stored || m.Params() != local.Params() {
				t.Errorf("%s, offline %v: stored %+v in %v, and %+v in %v of the files", l.Name, r.Hub.Offline, m.Stored, m.StoredBytes(),
					local.Stored, local.StoredBytes())
			}
		}
		if n := sent["model.safetensors"]; n > 128<<10 || n == 0 {
			t.Errorf("%s: %d of %d bytes were sent", l.Name, n, len(file))
		}
	}
}

// A checkpoint in several files has its tensors in all of them, whose headers may be longer than what is asked for first.
func TestHubShards(t *testing.T) {
	l := layouts(t)[0]
	var header map[string]json.RawMessage
	testkit.Must(t, json.Unmarshal(l.Header, &header))
	delete(header, "__metadata__")
	files, index := map[string][]byte{"config.json": l.Config}, map[string]string{}
	i := 0
	for name, text := range header {
		var e struct {
			DType   string  `json:"dtype"`
			Shape   []int64 `json:"shape"`
			Offsets []int64 `json:"data_offsets"`
		}
		testkit.Must(t, json.Unmarshal(text, &e))
		e.Offsets = []int64{0, e.Offsets[1] - e.Offsets[0]}
		one := map[string]any{name: e, "__metadata__": map[string]string{"text": strings.Repeat("x", i%3*100_000)}}
		text, err := json.Marshal(one)
		testkit.Must(t, err)
		shard := layout{Header: text}
		shard.Size = int64(len(text)) + int64(-len(text)&7) + 8 + e.Offsets[1]
		file := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(header))
		files[file], index[name] = shard.bytesOf(), file
		i++
	}
	text, err := json.Marshal(map[string]any{"weight_map": index})
	testkit.Must(t, err)
	files["model.safetensors.index.json"] = text
	url, _ := repository(t, files)
	m, err := at(t, url).Resolve(t.Context(), "o/n")
	testkit.Must(t, err)
	local, err := models.Resolver{}.Resolve(t.Context(), l.write(t))
	testkit.Must(t, err)
	if m.StoredBytes() != local.StoredBytes() || m.Stored.Bytes != local.Stored.Bytes {
		t.Errorf("%v of %d, want %v of %d", m.StoredBytes(), m.Stored.Bytes, local.StoredBytes(), local.Stored.Bytes)
	}

	delete(files, index[sortedFirst(index)])
	m, err = at(t, url).Resolve(t.Context(), "o/n")
	testkit.Must(t, err)
	if notes := strings.Join(m.Notes, "; "); !strings.Contains(notes, "as the headers of its safetensors files were not read") {
		t.Errorf("a file is missing: notes %q", notes)
	}
}

func sortedFirst(m map[string]string) (first string) {
	for k := range m {
		if first == "" || k < first {
			first = k
		}
	}
	return first
}

// A quantization that is not understood takes the bytes that its tensors have, where their headers are read.
func TestUnknownFormatHasItsBytes(t *testing.T) {
	for _, l := range layouts(t) {
		if l.Name != "W4A16" {
			continue
		}
		l.Config = bytes.Replace(l.Config, []byte(`"quant_method":"compressed-tensors"`), []byte(`"quant_method":"exl9"`), 1)
		l.Config = bytes.Replace(l.Config, []byte(`"quant_method": "compressed-tensors"`), []byte(`"quant_method": "exl9"`), 1)
		if _, err := models.Read("x", l.Config); err == nil || !strings.Contains(err.Error(), "exl9") {
			t.Errorf("without tensors: %v", err)
		}
		m, err := models.Resolver{}.Resolve(t.Context(), l.write(t))
		testkit.Must(t, err)
		off := float64(m.StoredBytes())/float64(m.Stored.Bytes) - 1
		if off > 0.001 || off < -0.001 || m.Stored.Weights.String() != "int4" || !strings.Contains(strings.Join(m.Notes, ";"), "exl9") {
			t.Errorf("%+.3f %%, stored %+v, notes %q", 100*off, m.Stored, m.Notes)
		}
		return
	}
	t.Fatal("no layout of W4A16")
}

// A hub that does not send the range that was asked for is not believed, and the shape stays that of config.json.
func TestHubRangesRefused(t *testing.T) {
	l := layouts(t)[0]
	for want, answer := range map[string]http.HandlerFunc{
		"does not send parts": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99999999")
			_, _ = w.Write([]byte("x"))
		},
		"is none": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "lines 1-2/3")
			w.WriteHeader(http.StatusPartialContent)
		},
		"was asked for those from 0 on": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 5-6/30")
			w.WriteHeader(http.StatusPartialContent)
		},
		"HTTP 429": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"is said to have": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(bytes.Repeat([]byte{255}, 100))
		},
	} {
		hub := serve(t, func(w http.ResponseWriter, r *http.Request) {
			switch path.Base(r.URL.Path) {
			case "config.json":
				_, _ = w.Write(l.Config)
			case "model.safetensors":
				answer(w, r)
			default:
				w.WriteHeader(http.StatusNotFound)
			}
		})
		m, err := at(t, hub.URL).Resolve(t.Context(), "o/n")
		testkit.Must(t, err)
		if notes := strings.Join(m.Notes, "; "); !strings.Contains(notes, want) {
			t.Errorf("notes %q, want %q", notes, want)
		}
	}
}

// A GGUF file of the hub is named by its quantization or by its name; its header alone is fetched.
func TestHubGGUF(t *testing.T) {
	whole := func(name string) []byte {
		header := ggufHeader(t, name)
		return append(header, make([]byte, ggufFiles(t)[name]-int64(len(header)))...)
	}
	file, other := whole("tiny-llama.q4_k_m"), whole("tiny-llama.q8_0")
	url, _ := repository(t, map[string][]byte{"tiny-Q4_K_M.gguf": file, "tiny-Q8_0.gguf": other, "mmproj-Q8_0.gguf": {}, "README.md": {}})
	r := at(t, url)
	for name, want := range map[string]string{"o/n:Q4_K_M": "gguf Q4_K_M", "o/n:q8_0": "gguf Q8_0", "o/n:tiny-Q8_0.gguf": "gguf Q8_0"} {
		m, err := r.Resolve(t.Context(), name)
		if err != nil || m.Stored.Method != want {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	for name, want := range map[string]string{
		"o/n:Q5_K_M": "it has tiny-Q4_K_M.gguf, tiny-Q8_0.gguf", "o/n:../x": "after ':' there must be",
	} {
		if _, err := r.Resolve(t.Context(), name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", name, err, want)
		}
	}
	r.Hub.Offline = true
	_, err := r.Resolve(t.Context(), "o/n:Q8_0")
	checkError(t, err, "o/n:Q8_0 is not in the hub cache|--offline")
	snapshot := filepath.Join(r.Hub.CacheDir, "models--o--n", "snapshots", commit)
	write(t, filepath.Join(r.Hub.CacheDir, "models--o--n", "refs", "main"), commit)
	testkit.Must(t, os.MkdirAll(snapshot, 0o777))
	testkit.Must(t, os.WriteFile(filepath.Join(snapshot, "tiny-Q8_0.gguf"), other, 0o600))
	if m, err := r.Resolve(t.Context(), "o/n:Q8_0"); err != nil || m.Stored.Method != "gguf Q8_0" {
		t.Errorf("cached: %v, %v", m, err)
	}
}

// FuzzRange: whatever a hub answers to a range, there is a model or an error, and no more is kept than was sent.
func FuzzRange(f *testing.F) {
	l := layouts(f)[0]
	f.Add(206, "bytes 0-7/100", l.bytesOf()[:4096])
	f.Add(200, "", l.bytesOf()[:64])
	f.Add(206, "bytes 0-4095/4096", l.bytesOf()[:4096])
	f.Add(416, "bytes */0", []byte{})
	var status int
	var span string
	var body []byte
	hub := serve(f, func(w http.ResponseWriter, r *http.Request) {
		switch path.Base(r.URL.Path) {
		case "config.json":
			_, _ = w.Write(l.Config)
		case "model.safetensors":
			if span != "" {
				w.Header().Set("Content-Range", span)
			}
			w.WriteHeader(status)
			_, _ = w.Write(body)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	f.Fuzz(func(t *testing.T, code int, header string, data []byte) {
		if code < 200 || code > 599 || strings.ContainsAny(header, "\r\n") {
			return
		}
		status, span, body = code, header, data
		r := at(t, hub.URL)
		r.Hub.CacheDir = ""
		m, err := r.Resolve(t.Context(), "o/n")
		if err == nil && (m.Params() <= 0 || float64(m.StoredBytes()) <= 0) {
			t.Errorf("%d parameters, %v", m.Params(), m.StoredBytes())
		}
	})
}
