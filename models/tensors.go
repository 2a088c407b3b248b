package models

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
	tensorFile     = "model.safetensors"
	indexFile      = tensorFile + ".index.json"
)

// mostOff is how far the bytes of a shape may be from those of the tensors beside it.
const mostOff = 0.005

// Tensors are the tensors that the files of a checkpoint name in their headers, without their values.
type Tensors map[string]safetensors.Entry

// A tensorIndex is model.safetensors.index.json: in which file each tensor is, and the bytes of all.
type tensorIndex struct {
	Metadata struct {
		Total int64 `json:"total_size"`
	} `json:"metadata"`
	Files map[string]string `json:"weight_map"`
}

func parseIndex(data []byte) (index tensorIndex, err error) {
	limits := input.Limits{Bytes: maxIndex, Depth: 4, Values: 2_000_000}
	if err = limits.JSON(string(data)); err == nil {
		err = json.Unmarshal(data, &index)
	}
	return index, err
}

// localTensors reads the headers of the safetensors files of a directory, no weights. It is nil where there are none, or
// not all that the index names, as while a checkpoint is fetched. An index without files still counts the bytes.
func localTensors(dir string) (all Tensors, index tensorIndex, err error) {
	paths, err := input.Files(dir, "*.safetensors")
	if err != nil {
		return nil, index, err
	}
	if data, err := input.Read(filepath.Join(dir, indexFile), maxIndex); err == nil {
		index, _ = parseIndex(data) // the headers count where the index cannot be read
	}
	if len(paths) == 0 || len(paths) > maxTensorFiles || index.lacks(paths) {
		all, err = storedTensors(dir)
		return all, index, err
	}
	all = make(Tensors)
	headers := int64(0)
	for _, path := range paths {
		n, err := all.readFile(path)
		if headers += n; err == nil && headers > maxHeaders {
			err = errHeaders
		}
		if err != nil {
			return nil, index, fmt.Errorf("%s: %w", path, err)
		}
	}
	return all, index, nil
}

var errHeaders = fmt.Errorf("the headers of the checkpoint's files take more than %s, the most that is read", input.Size(maxHeaders))

// readFile adds the tensors of a file, and returns the bytes of its header.
func (t Tensors) readFile(path string) (header int64, err error) {
	f, size, err := input.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	entries, header, err := safetensors.ReadHeader(f, size)
	for name, e := range entries {
		t[name] = e
	}
	return header, err
}

// lacks reports whether the index names files that are not there.
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
		if m.whereIs(name).part != decoderTensor {
			return false
		}
	}
	return x.Metadata.Total > 0 && len(x.Files) > 0
}

// A tensorPart is what of a checkpoint a tensor belongs to.
type tensorPart uint8

const (
	decoderTensor tensorPart = iota
	encoderTensor            // tensor of a vision or audio encoder, or of its projector
	draftTensor
	bufferTensor // positions and masks that engines make themselves
)

// A spot is where a tensor stands: in which layer, -1 for none, and among its routed experts or not.
type spot struct {
	part    tensorPart
	layer   int
	experts bool
}

// layerNumber finds the number of the layer in the name of a tensor.
var layerNumber = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?:^|\.)(?:layers|h|blocks)\.(\d{1,6})\.`) })

// encoderWords are in the names of tensors of encoders and projectors, and in those of no decoder.
var encoderWords = []string{"visual", "vision", "audio", "multi_modal", "mm_projector", "image_newline", "talker", "code2wav",
	"patch_merge", "image_embed", "img_processor", "speech_encoder", "vit.", "connector.", "resampler", "aligner", "mlp1."}

// whereIs says where a tensor stands in the model.
func (m *Model) whereIs(name string) spot {
	for _, word := range encoderWords {
		if strings.Contains(name, word) {
			return spot{part: encoderTensor, layer: -1}
		}
	}
	switch {
	case strings.Contains(name, "mtp"):
		return spot{part: draftTensor, layer: -1}
	case strings.Contains(name, "inv_freq"), strings.Contains(name, "masked_bias"):
		return spot{part: bufferTensor, layer: -1}
	}
	s := spot{layer: -1}
	if found := layerNumber().FindStringSubmatch(name); found != nil {
		s.layer, _ = strconv.Atoi(found[1]) // at most six digits
		s.experts = strings.Contains(name, "experts") && !strings.Contains(name, "shared_expert")
		if s.layer >= m.NumLayers() {
			s.part = draftTensor
		}
	}
	return s
}

// weigh holds the shape against the tensors of its checkpoint, and takes from them what the matrices of each layer, its
// experts apart, take in memory. The config says how they share in it.
func (m *Model) weigh(all Tensors, lenient bool) error {
	held, encoders := make(map[spot]float64), int64(0)
	total := 0.0
	for name, e := range all {
		s, bytes := m.whereIs(name), float64(e.Offsets[1]-e.Offsets[0])
		switch s.part {
		case decoderTensor:
			held[s] += bytes
			total += bytes
		case encoderTensor:
			encoders += e.Elements()
		}
	}
	if encoders > 0 {
		m.countEncoders(encoders)
	}
	if total == 0 {
		return nil
	}
	if m.takeDType(all); m.Stored.Plain == unit.NoFormat {
		return nil
	}
	m.Stored.Bytes = int64(total)
	err := m.heldAgainst(total)
	switch {
	case err == nil, m.Stored.unknown:
	case !lenient:
		return err
	default:
		m.Notes = append(m.Notes, err.Error())
	}
	return m.rescale(held, all)
}

// heldAgainst reports where the bytes of the shape are not those of the tensors.
func (m *Model) heldAgainst(total float64) error {
	want := float64(m.StoredBytes())
	off := (want - total) / total
	if off <= mostOff && off >= -mostOff {
		return nil
	}
	return fmt.Errorf("config.json makes %.4g GB of weights (%s); the tensors beside it have %.4g GB (%+.1f %%): the files are not of one "+
		"checkpoint, or a format is not understood; --lenient takes the bytes of the tensors", want/1e9,
		cmp.Or(m.Stored.Method, m.Stored.Plain.String()), total/1e9, 100*off)
}

// takeDType takes the format of what is not quantized from the tensors: most values of layers that are in one of the
// formats without scales are in it.
func (m *Model) takeDType(all Tensors) {
	formats := map[string]unit.Format{"BF16": unit.BF16, "F16": unit.FP16, "F32": unit.FP32}
	values := make(map[unit.Format]int64)
	for name, e := range all {
		if f, plain := formats[e.DType]; plain && m.whereIs(name).part == decoderTensor {
			values[f] += e.Elements()
		}
	}
	most := unit.NoFormat
	for f, n := range values {
		if n > values[most] || n == values[most] && f < most {
			most = f
		}
	}
	if stated := m.Stored.Plain; most != unit.NoFormat && m.Stored.Method == "" && !m.Stored.unknown && stated != most {
		m.Stored.Plain, m.Stored.Weights = most, most
		if stated != unit.NoFormat {
			m.Notes = append(m.Notes, fmt.Sprintf("config.json says dtype %v, and the tensors are in %v: the latter counts", stated, most))
		}
	}
}

// rescale gives the matrices of each layer the bytes that its tensors have.
func (m *Model) rescale(held map[spot]float64, all Tensors) error {
	for _, b := range m.Blocks() {
		if b.Reused { // its tensors stand in another layer
			return nil
		}
	}
	made := make(map[spot]float64) // bytes of the matrices, without norms and biases
	for i, kind := range m.Order {
		rest, experts := spot{layer: i}, spot{layer: i, experts: true}
		for j := range m.Layers[kind].Blocks {
			b := &m.Layers[kind].Blocks[j]
			held[rest] -= float64(m.vectors().Bytes(float64(b.Extra+normParams(b.Norms)), 1))
			_ = b.visit(func(p part, l *Linear) error {
				at, copies := rest, 1.0
				if p == expertPart {
					at, copies = experts, float64(b.Experts.Count)
				}
				whole, bare := *l, *l
				bare.Bias = false
				made[at] += copies * float64(m.storedLinearBytes(&bare))
				held[at] -= copies * float64(m.storedLinearBytes(&whole)-m.storedLinearBytes(&bare))
				return nil
			})
		}
	}
	scaled := make(map[Storage]map[float64]*Storage)
	err := m.store(func(at place, l *Linear) (*Storage, error) {
		s := spot{layer: at.layer, experts: at.part == expertPart}
		return m.scaledTo(scaled, l.Stored, held[s]/made[s]), nil
	})
	if err != nil {
		return err
	}
	m.Embedding.Stored = m.scaledTo(scaled, m.Embedding.Stored, all.named(tableNames)/float64(m.storedTableBytes()))
	if !m.TiedHead {
		m.Head.Stored = m.scaledTo(scaled, m.Head.Stored, all.named(headNames)/float64(m.storedLinearBytes(&m.Head)))
	}
	if m.Stored.unknown {
		m.summarize()
	}
	return nil
}

// The names that the modules of the embedding and of the head may have.
var (
	tableNames = []string{"embed_tokens", "wte", "word_embeddings", "tok_embeddings", "embed_in", "embedding", "embeddings"}
	headNames  = []string{"lm_head", "output", "embed_out"}
)

// named sums the bytes of the tensors of a module outside of the layers.
func (t Tensors) named(modules []string) (bytes float64) {
	for name, e := range t {
		parts := strings.Split(name, ".")
		if len(parts) > 1 && slices.Contains(modules, parts[len(parts)-2]) && !layerNumber().MatchString(name) {
			bytes += float64(e.Offsets[1] - e.Offsets[0])
		}
	}
	return bytes
}

// scaledTo is a storage of factor times as many bytes. One that is nearly the same is left as it is, so that layers that
// differ by a rounding stay of one kind.
func (m *Model) scaledTo(known map[Storage]map[float64]*Storage, s *Storage, factor float64) *Storage {
	const near = 5e-4
	if factor = math.Round(factor*1e4) / 1e4; math.Abs(factor-1) < near || factor <= 0 || math.IsNaN(factor) || math.IsInf(factor, 0) {
		return s
	}
	from := *cmp.Or(s, plainStorage(m.Stored.Plain))
	if known[from] == nil {
		known[from] = make(map[float64]*Storage)
	}
	if known[from][factor] == nil {
		to := from
		to.Bits, to.Scale, to.PerInput, to.Fixed = from.Bits*factor, from.Scale*factor, from.PerInput*factor, from.Fixed*factor
		if s == nil && m.Stored.unknown {
			to.Name, to.Format = fmt.Sprintf("%.3g bits", to.Bits), nearestFormat(to.Bits)
		}
		known[from][factor] = &to
	}
	return known[from][factor]
}

// nearestFormat is the integer format of values that take so many bits with their scales, or 16 bits.
func nearestFormat(bits float64) unit.Format {
	switch {
	case bits < 6.5:
		return unit.INT4
	case bits < 12:
		return unit.INT8
	}
	return unit.BF16
}

// dirOf is the directory of a config.json that is called so, "" for another file.
func dirOf(path string) string {
	if filepath.Base(path) != configFile {
		return ""
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err != nil {
		return ""
	}
	return filepath.Dir(path)
}
