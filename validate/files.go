package validate

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
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
		{name: "engine", to: &f.Engine}, {name: "versions", to: &f.Versions}, {name: "gpu", to: &f.GPU}, {name: "driver", to: &f.Driver},
		{name: "cuda", to: &f.CUDA},
		{name: "cpu", to: &f.CPU}, {name: "power_limit_w", to: &f.PowerW}, {name: "prefill_clock_hz", to: &f.Prefill},
		{name: "decode_clock_hz", to: &f.Decode},
		{name: "prefill_held_share", to: &f.Held},
	}
}

// Check says what about the file cannot be.
func (f *File) Check() error {
	if raw, err := hex.DecodeString(f.SHA256); err != nil || len(raw) != sha256.Size {
		return fmt.Errorf("sha256 %.80q: want 64 hexadecimal digits", f.SHA256)
	}
	return nil
}

// WriteFiles writes conditions as CSV.
func WriteFiles(w io.Writer, files []File) error { return write(w, files) }

// reduced is the list of the result files that some of them were reduced from.
//
//go:embed files.csv
var reduced []byte

const filesFile = "files.csv"

// Files are the result files that the embedded observations of this project were
// reduced from.
func Files() ([]File, error) { return parse[File](filesFile, reduced) }

// source is the source of the observations that were reduced from the file: results
// of the native engine are kept apart from those of transformers.
func (f *File) source() string {
	if strings.HasPrefix(f.Engine, "native ") {
		return "native"
	}
	return "h200"
}

// Origin is the source of a result file that embedded observations were reduced
// from, "" of any other. Its observations are those, so what a constant was fitted
// on is scored separately there too.
func Origin(data []byte) (source string, err error) {
	files, err := Files()
	sum := digest(data)
	i := slices.IndexFunc(files, func(f File) bool { return f.SHA256 == sum })
	if i < 0 {
		return "", err
	}
	return files[i].source(), nil
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
