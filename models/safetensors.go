package models

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"llmprof/internal/input"
	"llmprof/models/safetensors"
	"llmprof/unit"
)

// Limits on the files of a checkpoint and on their index.
const (
	maxTensorFiles = 2000
	maxHeaders     = 64 << 20 // bytes of the headers of all files
	maxIndex       = 64 << 20 // bytes
)

// mostOff is how far the bytes of a shape may be from those of the tensors beside it.
const mostOff = 0.005

// checkTensors counts the bytes of the safetensors files beside a config.json by their headers, no weights read,
// and holds the shape and its formats against them.
func (m *Model) checkTensors(dir string, lenient bool) error {
	paths, err := input.Files(dir, "*.safetensors")
	index := readIndex(dir)
	if err != nil || len(paths) > maxTensorFiles || m.Stored.Plain == unit.NoFormat {
		return err
	}
	var total, headers int64
	switch {
	case len(paths) > 0 && !index.lacks(paths):
		for _, path := range paths {
			n, header, err := m.tensorBytes(path)
			if headers += header; err == nil && headers > maxHeaders {
				err = fmt.Errorf("the headers of the files beside it take more than %s, the most that is read of a checkpoint", input.Size(maxHeaders))
			}
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			total += n
		}
	case index.decoderAlone(m): // the index counts all tensors together
		total = index.Metadata.Total
	default:
		return nil
	}
	m.Stored.Bytes = total
	want := float64(m.StoredBytes())
	if off := (want - float64(total)) / float64(total); off > mostOff || off < -mostOff {
		err := fmt.Errorf("config.json makes %.4g GB of weights (%s); the tensors beside it have %.4g GB (%+.1f %%): the files are not of one "+
			"checkpoint, "+
			"or a format is not understood; --lenient goes on with the former", want/1e9, cmp.Or(m.Stored.Method, m.Stored.Plain.String()),
			float64(total)/1e9, 100*off)
		if !lenient {
			return err
		}
		m.Notes = append(m.Notes, err.Error())
	}
	return nil
}

// A tensorIndex is model.safetensors.index.json: in which file each tensor is, and the bytes of all.
type tensorIndex struct {
	Metadata struct {
		Total int64 `json:"total_size"`
	} `json:"metadata"`
	Files map[string]string `json:"weight_map"`
}

// readIndex reads the index of a directory. One that is missing or unreadable holds nothing.
func readIndex(dir string) (index tensorIndex) {
	data, err := input.Read(filepath.Join(dir, "model.safetensors.index.json"), maxIndex)
	if err != nil {
		return tensorIndex{}
	}
	limits := input.Limits{Bytes: maxIndex, Depth: 4, Values: 2_000_000}
	if limits.JSON(string(data)) != nil || json.Unmarshal(data, &index) != nil {
		return tensorIndex{}
	}
	return index
}

// lacks reports whether the index names files that are not there, as while a checkpoint is fetched.
func (x *tensorIndex) lacks(paths []string) bool {
	have := make(map[string]bool, len(paths))
	for _, p := range paths {
		have[filepath.Base(p)] = true
	}
	for _, file := range x.Files {
		if !have[file] {
			return true
		}
	}
	return false
}

// decoderAlone reports whether the index counts tensors of the decoder and no others.
func (x *tensorIndex) decoderAlone(m *Model) bool {
	for name := range x.Files {
		if !m.isDecoders(name) {
			return false
		}
	}
	return x.Metadata.Total > 0 && len(x.Files) > 0
}

// tensorBytes is the memory of the decoder's tensors in a file, and the bytes of its header.
func (m *Model) tensorBytes(path string) (total, header int64, err error) {
	f, size, err := input.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	entries, header, err := safetensors.ReadHeader(f, size)
	if err != nil {
		return 0, header, err
	}
	for name, e := range entries {
		if m.isDecoders(name) {
			total += e.Offsets[1] - e.Offsets[0]
		}
	}
	return total, header, nil
}

// layerNumber finds the number of the layer in the name of a tensor.
var layerNumber = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?:^|\.)(?:layers|h|blocks)\.(\d{1,6})\.`) })

// isDecoders reports whether a tensor is a part of the decoder whose shape was read: no tower, no
// projector, no draft layer, no buffer of positions.
func (m *Model) isDecoders(name string) bool {
	for _, other := range []string{
		"visual", "vision", "audio", "multi_modal", "mm_projector", "image_newline", "embed_vision", "talker", "code2wav", "mtp", "patch_merge",
		"inv_freq", "masked_bias",
	} {
		if strings.Contains(name, other) {
			return false
		}
	}
	if found := layerNumber().FindStringSubmatch(name); found != nil {
		n, err := strconv.Atoi(found[1])
		return err == nil && n < m.NumLayers()
	}
	return true
}

// dirOf is the directory of a config.json that is called so, "" for another file.
func dirOf(path string) string {
	if filepath.Base(path) != configFile {
		return ""
	}
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return filepath.Dir(path)
}
