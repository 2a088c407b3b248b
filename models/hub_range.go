//go:build !js

package models

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"llmprof/internal/input"
	"llmprof/models/gguf"
	"llmprof/models/safetensors"
)

// The bytes that are asked for at once: most headers have fewer than the first.
const (
	firstRange = 128 << 10
	mostRange  = 8 << 20
)

// atOnce is how many files of a repository are asked for at once.
const atOnce = 8

// A ranged file is read from its beginning on by HTTP ranges, only as far as its reader goes.
type ranged struct {
	ctx  context.Context //nolint:containedctx // a Reader has no other way to be interrupted
	r    request
	next int64 // bytes to ask for next
	at   int64 // first byte that was not asked for yet
	size int64 // bytes of the file, once an answer said so
	left []byte
}

// openRange asks for the beginning of a file.
func openRange(ctx context.Context, r request) (*ranged, error) {
	f := &ranged{ctx: ctx, r: r, next: firstRange, size: -1}
	return f, f.fetchNext()
}

// Read reads what was asked for, and asks for more where that is used up.
func (f *ranged) Read(p []byte) (int, error) {
	if len(f.left) == 0 {
		if f.at >= f.size {
			return 0, io.EOF
		}
		if err := f.fetchNext(); err != nil {
			return 0, err
		}
	}
	n := copy(p, f.left)
	f.left = f.left[n:]
	return n, nil
}

// fetchNext fetches the next range.
func (f *ranged) fetchNext() error {
	f.r.span = fmt.Sprintf("bytes=%d-%d", f.at, f.at+f.next-1)
	resp, _, err := f.r.open(f.ctx)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	n, err := f.accept(resp)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, n))
	if err == nil && int64(len(data)) < n {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("the answer of %s broke off after %d bytes: %w; try again", resp.Request.URL.Host, len(data), err)
	}
	f.left, f.at, f.next = data, f.at+n, min(4*f.next, mostRange)
	return nil
}

// accept reads from an answer which bytes of how many it brings, which must be those asked for.
func (f *ranged) accept(resp *http.Response) (n int64, err error) {
	host, begin, size := resp.Request.URL.Host, int64(0), resp.ContentLength
	switch {
	case resp.StatusCode == http.StatusPartialContent:
		var end int64
		if begin, end, size, err = parseRange(resp.Header.Get("Content-Range")); err != nil {
			return 0, fmt.Errorf("%s answered with a range that is none: %w", host, err)
		}
		n = end - begin + 1
	case resp.StatusCode == http.StatusOK && size >= 0 && size <= f.next:
		n = size // the whole of a short file
	case resp.StatusCode == http.StatusOK:
		return 0, fmt.Errorf("%s does not send parts of files (HTTP 200 to a range)", host)
	default:
		return 0, f.r.refused(resp)
	}
	if begin != f.at || n < 1 || n > f.next || begin+n > size || f.size >= 0 && f.size != size {
		return 0, fmt.Errorf("%s answered with bytes %d to %d of %d, and was asked for those from %d on", host, begin, begin+n-1, size, f.at)
	}
	f.size = size
	return n, nil
}

var contentRange = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^bytes (\d{1,18})-(\d{1,18})/(\d{1,18})$`) })

// parseRange reads "bytes 0-7/1000".
func parseRange(text string) (begin, end, size int64, err error) {
	found := contentRange().FindStringSubmatch(text)
	if found == nil {
		return 0, 0, 0, fmt.Errorf("%.60q; want \"bytes 0-7/1000\"", text)
	}
	var figures [3]int64
	for i := range figures {
		figures[i], _ = strconv.ParseInt(found[i+1], 10, 64) // at most 18 digits
	}
	return figures[0], figures[1], figures[2], nil
}

// tensors asks the hub for the headers of the safetensors files of a revision.
func (h Hub) tensors(ctx context.Context, id HubID) (all Tensors, err error) {
	h.Timeout = 3 * cmp.Or(h.Timeout, hubTimeout)
	err = h.asking(ctx, id, func(ctx context.Context, r request) error {
		names, err := r.tensorFiles(ctx)
		if err == nil {
			all, err = r.headers(ctx, names)
		}
		return err
	})
	return all, err
}

// tensorFiles are the safetensors files of a repository: those that its index names, or the one.
func (r request) tensorFiles(ctx context.Context) ([]string, error) {
	r.file, r.most, r.optional = indexFile, maxIndex, true
	f, err := r.do(ctx)
	if err != nil {
		return nil, err
	}
	if f.config == nil {
		return []string{tensorFile}, nil
	}
	index, err := parseIndex(f.config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", indexFile, err)
	}
	names := slices.Compact(slices.Sorted(maps.Values(index.Files)))
	if len(names) == 0 || len(names) > maxTensorFiles {
		return nil, fmt.Errorf("%s names %d files; from 1 to %d are read", indexFile, len(names), maxTensorFiles)
	}
	for _, name := range names {
		if !hubRev().MatchString(name) || strings.Contains(name, "..") {
			return nil, fmt.Errorf("%s names the file %.80q", indexFile, name)
		}
	}
	return names, nil
}

// headers reads the headers of files, several at once.
func (r request) headers(ctx context.Context, names []string) (Tensors, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	all, bytes := make(Tensors), int64(0)
	add := func(name string) error {
		entries, n, err := r.header(ctx, name)
		mu.Lock()
		defer mu.Unlock()
		if bytes += n; err == nil && bytes > maxHeaders {
			err = errHeaders
		}
		maps.Copy(all, entries)
		return err
	}
	work := make(chan string, len(names))
	var workers sync.WaitGroup
	for range min(atOnce, len(names)) {
		workers.Go(func() {
			for name := range work {
				if ctx.Err() != nil {
					continue
				}
				if err := add(name); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, name := range names {
		work <- name
	}
	close(work)
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return all, nil
}

// header reads the header of one file, and returns its bytes.
func (r request) header(ctx context.Context, name string) (map[string]safetensors.Entry, int64, error) {
	r.file, r.optional = name, name == tensorFile
	f, err := openRange(ctx, r)
	if err != nil {
		return nil, 0, err
	}
	entries, n, err := safetensors.ReadHeader(f, f.size)
	if err != nil {
		return nil, n, fmt.Errorf("%s: %w", name, err)
	}
	return entries, n, nil
}

// gguf reads the headers of the GGUF file of a repository that its id names, and of its other parts.
func (h Hub) gguf(ctx context.Context, id HubID) (name string, headers []*gguf.Header, err error) {
	err = h.asking(ctx, id, func(ctx context.Context, r request) error {
		if name, err = r.findGGUF(ctx); err != nil {
			return err
		}
		parts, err := gguf.Parts(name)
		if err != nil {
			return err
		}
		budget := gguf.NewBudget()
		for _, part := range parts {
			r.file = path.Join(path.Dir(name), filepath.Base(part))
			f, err := openRange(ctx, r)
			if err != nil {
				return err
			}
			header, err := budget.Parse(f, f.size)
			if err != nil {
				return fmt.Errorf("%s: %w", r.file, err)
			}
			headers = append(headers, header)
		}
		return nil
	})
	return name, headers, err
}

// findGGUF finds the file whose name has the quantization that the id names, or is what the id names.
func (r request) findGGUF(ctx context.Context) (string, error) {
	listing := r
	listing.listing, listing.most = true, maxIndex
	f, err := listing.do(ctx)
	if err != nil {
		return "", err
	}
	var repo struct {
		Siblings []struct {
			Name string `json:"rfilename"`
		} `json:"siblings"`
	}
	limits := input.Limits{Bytes: maxIndex, Depth: maxDepth, Values: 1_000_000}
	if err := limits.JSON(string(f.config)); err != nil {
		return "", fmt.Errorf("the list of its files: %w", err)
	}
	if err := json.Unmarshal(f.config, &repo); err != nil {
		return "", fmt.Errorf("the list of its files: %w", err)
	}
	var files []string
	for _, s := range repo.Siblings {
		files = append(files, s.Name)
	}
	return pickGGUF(files, r.id.File)
}
