package validate

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"llmprof/measure/result"
)

// A File says under which conditions the observations of one result file were
// made, and by which versions: all that is kept of it beside them.
type File struct {
	Name     string // ID of its observations
	SHA256   string
	Started  time.Time
	Version  string // version of llmprof
	Engine   string // engine with its version
	Versions string // versions of the engine's libraries
	GPU      string
	Driver   string
	CUDA     string
	CPU      string
	PowerW   *float64 // limit
	Prefill  *float64 // median SM clock in each phase, in hertz
	Decode   *float64
	Held     string // share of the prefill window that the clocks were held down
}

// Describe reads the conditions of a result from the content of its file.
func Describe(data []byte, r *result.Result) File {
	f := File{
		Name: result.FileName(r.ID, r.Process), SHA256: digest(data), Started: r.Started.UTC().Truncate(time.Second),
		Version: r.Provenance.Version, Engine: r.Engine.Name + " " + r.Engine.Version,
		Driver: r.Machine.Driver, CUDA: r.Machine.CUDA, CPU: r.Machine.CPU,
	}
	for _, key := range []string{"torch", "triton", "python"} {
		if v := r.Engine.Versions[key]; v != "" {
			f.Versions = strings.TrimSpace(f.Versions + " " + key + " " + v)
		}
	}
	if len(r.Machine.GPUs) > 0 {
		f.GPU, f.PowerW = r.Machine.GPUs[0].Name, r.Machine.GPUs[0].PowerLimitW
	}
	f.Prefill, f.Decode = clock(r, "prefill"), clock(r, "decode")
	if r.Energy != nil && r.Energy.Prefill != nil && r.Energy.Prefill.Seconds > 0 {
		for _, c := range r.Conditions {
			if c.Phase == "prefill" {
				var held float64
				for _, s := range c.ThrottledS {
					held += s
				}
				f.Held = strconv.FormatFloat(held/r.Energy.Prefill.Seconds, 'f', 3, 64)
			}
		}
	}
	return f
}

// clock is the median of the SM clock in a phase.
func clock(r *result.Result, phase string) *float64 {
	for _, c := range r.Conditions {
		if c.Phase == phase && c.SMClockHz != nil {
			return &c.SMClockHz.Median
		}
	}
	return nil
}

func (f *File) cells() []cell {
	return []cell{
		{name: "file", to: &f.Name}, {name: "sha256", to: &f.SHA256}, {name: "started", to: &f.Started}, {name: "llmprof", to: &f.Version},
		{name: "engine", to: &f.Engine}, {name: "versions", to: &f.Versions}, {name: "gpu", to: &f.GPU}, {name: "driver", to: &f.Driver}, {name: "cuda", to: &f.CUDA},
		{name: "cpu", to: &f.CPU}, {name: "power_limit_w", to: &f.PowerW}, {name: "prefill_clock_hz", to: &f.Prefill}, {name: "decode_clock_hz", to: &f.Decode},
		{name: "prefill_held_share", to: &f.Held},
	}
}

// WriteFiles writes conditions as CSV.
func WriteFiles(w io.Writer, files []File) error {
	records := [][]string{names(new(File).cells())}
	for i := range files {
		var record []string
		for _, c := range files[i].cells() {
			record = append(record, c.text())
		}
		records = append(records, record)
	}
	return csv.NewWriter(w).WriteAll(records)
}

// Files are the result files that the embedded observations of this project were
// reduced from.
func Files() ([]File, error) { return parseFiles(filesFile, reduced) }

// Source is the source of the observations that were reduced from the file: results
// of the native engine are kept apart from those of transformers.
func (f *File) Source() string {
	if strings.HasPrefix(f.Engine, "native ") {
		return "native"
	}
	return "h200"
}

// shipped are the sources of the files by their hashes.
var shipped = sync.OnceValues(func() (map[string]string, error) {
	files, err := Files()
	sources := map[string]string{}
	for i := range files {
		sources[files[i].SHA256] = files[i].Source()
	}
	return sources, err
})

// Origin is the source of a result file that embedded observations were reduced
// from, "" of any other. Its observations are those, so what a constant was fitted
// on is scored separately there too.
func Origin(data []byte) (source string, err error) {
	sources, err := shipped()
	return sources[digest(data)], err
}

// ReduceFile makes observations of a result whose file has that content. Where the
// file is one that embedded observations were reduced from, they have the embedded
// source, so that what a constant was fitted on is scored separately.
func ReduceFile(source string, data []byte, r *result.Result) ([]Observation, error) {
	embedded, err := Origin(data)
	if err != nil {
		return nil, err
	}
	return Reduce(cmp.Or(embedded, source), r)
}

func parseFiles(name string, data []byte) ([]File, error) {
	records, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if columns := names(new(File).cells()); len(records) == 0 || !slices.Equal(records[0], columns) {
		return nil, fmt.Errorf("%s:1: want the columns %s", name, strings.Join(columns, ","))
	}
	var all []File
	for i, r := range records[1:] {
		var f File
		for j, c := range f.cells() {
			if err := c.read(r[j]); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", name, i+2, err)
			}
		}
		if raw, err := hex.DecodeString(f.SHA256); err != nil || len(raw) != sha256.Size {
			return nil, fmt.Errorf("%s:%d: sha256 %.80q: want 64 hexadecimal digits", name, i+2, f.SHA256)
		}
		all = append(all, f)
	}
	return all, nil
}

// A fit says that a constant of the theory was fitted on observations like
// those that it names; an empty field is any. Its constant has the key that
// package roofline gives it.
type fit struct {
	source, engine, mode, gpu, model string
	metric                           Metric
	batch, tp                        int // 0 for any
	constant                         string
}

// Constants of transformers were fitted on this model; these are their names.
const (
	llama   = "llama3.1-8b"
	launch  = "host.launch of transformers"
	graph   = "host.small_kernel and attention.copies of transformers in a graph"
	fixed   = "power.fixed"
	unfused = "element.unfused of transformers"
)

// fits lists the constants that were fitted on embedded observations, so that
// these are scored separately. A constant computed from times of single operators is
// not fitted here: no operator is an observation.
func fits() []fit {
	return []fit{
		{source: "h200", engine: "transformers", mode: "eager", model: llama, metric: TPOT, constant: launch},
		{source: "h200", engine: "transformers", mode: "eager", model: llama, metric: TTLT, constant: launch},
		{source: "h200", engine: "transformers", mode: "graph", model: llama, metric: TPOT, constant: graph},
		{source: "h200", engine: "transformers", mode: "graph", model: llama, metric: TTLT, constant: graph},
		{source: "h200", engine: "transformers", mode: "graph", model: llama, metric: EnergyPerToken, constant: fixed},
		{source: "h200", engine: "transformers", mode: "graph", model: llama, metric: EnergyPerRequest, constant: fixed},
		{source: "h200", engine: "transformers", model: llama, metric: TTFT, tp: 1, constant: unfused},
		{source: "h200", engine: "transformers", model: llama, metric: EnergyPerPrompt, tp: 1, constant: unfused},
		{source: "h200-vllm", model: "llama3.2-1b", constant: "host.async_step host.async_sequence host.request host.launch host.dispatch of vllm"},
		{source: "h100-vllm", model: "llama3.2-1b", constant: "host.async_step host.async_sequence host.request host.launch host.dispatch of vllm"},
		{source: "h200-vllm-fp8", model: "llama3.2-3b", metric: TPOT, constant: "host.async_sequence of vllm"},
		{source: "h100-vllm-fp8", model: "llama3.2-3b", metric: TPOT, constant: "host.async_sequence of vllm"},
		{source: "h100-llamacpp", model: llama, constant: "host.step host.small_kernel attention.compute attention.ramp attention.fixed skinny_gemm.memory skinny_gemm.row of llama-cpp"},
		{source: "h100-llamacpp", model: "llama3.2-1b", constant: "host.launch host.request of llama-cpp"},
		{source: "h100-llamacpp", model: "qwen3-30b-a3b", metric: TPOT, batch: 32, constant: "element.compute of llama-cpp in the tiles of experts"},
		{source: "elana", gpu: "agx-thor-128gb", metric: TPOT, constant: "gemm.memory of integrated modules"},
		{source: "elana", gpu: "agx-thor-128gb", metric: TTLT, constant: "gemm.memory of integrated modules"},
	}
}

// fitted is the constant that was fitted on an observation, empty if none was.
func fitted(o *Observation) string {
	for _, f := range fits() {
		if f.source == o.Source && wants(f.engine, o.Engine) && wants(f.mode, o.Mode) && wants(f.gpu, o.GPU) &&
			wants(f.model, o.Model) && wants(string(f.metric), string(o.Metric)) && (f.batch == 0 || f.batch == o.Batch) && (f.tp == 0 || f.tp == o.TP) {
			return f.constant
		}
	}
	return ""
}

func wants(pattern, text string) bool { return pattern == "" || pattern == text }

// observations are the files that come with the program.
//
//go:embed observations/*.csv
var observations embed.FS

// reduced is the list of the result files that some of them were reduced from.
//
//go:embed files.csv
var reduced []byte

// A Source is where embedded observations are from.
type Source struct {
	Key     string `json:"key"` // key of the source in observations
	Title   string `json:"title"`
	URL     string `json:"url"`
	Licence string `json:"licence"`
	How     string `json:"how"` // the run, and assumptions on what the source does not state
}

// Sources lists where the embedded observations are from.
func Sources() ([]Source, error) {
	data, err := observations.ReadFile(sourcesFile)
	if err != nil {
		return nil, err
	}
	return parseSources(data)
}

// The files that hold no observations.
const (
	sourcesFile = "observations/sources.csv"
	filesFile   = "files.csv"
)

func parseSources(data []byte) ([]Source, error) {
	records, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sourcesFile, err)
	}
	const head = "key,title,url,licence,how"
	if len(records) == 0 || strings.Join(records[0], ",") != head {
		return nil, fmt.Errorf("%s:1: want the columns %s", sourcesFile, head)
	}
	var all []Source
	for i, r := range records[1:] {
		for j, text := range r {
			if text == "" {
				return nil, fmt.Errorf("%s:%d: %s is empty", sourcesFile, i+2, records[0][j])
			}
		}
		all = append(all, Source{r[0], r[1], r[2], r[3], r[4]})
	}
	return all, nil
}

// Embedded are the observations that come with the program.
func Embedded() ([]Observation, error) {
	sources, err := Sources()
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, s := range sources {
		known[s.Key] = true
	}
	names, err := fs.Glob(observations, "observations/*.csv")
	if err != nil {
		return nil, err
	}
	var all []Observation
	for _, name := range names {
		if name == sourcesFile {
			continue
		}
		data, err := observations.ReadFile(name)
		if err != nil {
			return nil, err
		}
		some, err := Parse(name, data)
		if err != nil {
			return nil, err
		}
		for i := range some {
			if key := some[i].Source; !known[key] || key != strings.TrimSuffix(path.Base(name), ".csv") {
				return nil, fmt.Errorf("%s: source %.40q: want that of the file's name, listed in %s", name, key, sourcesFile)
			}
		}
		all = append(all, some...)
	}
	return all, nil
}
