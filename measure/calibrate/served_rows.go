package calibrate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// A Server is what the points of a file were measured on: its first line.
type Server struct {
	Schema  string            `json:"schema"`
	Kind    string            `json:"kind" jsonschema:"enum=server"`    // "server"
	GPU     string            `json:"gpu" jsonschema:"minLength=1"`     // key in the table
	Engine  string            `json:"engine" jsonschema:"minLength=1"`  // engine whose profile the server has
	Model   string            `json:"model" jsonschema:"minLength=1"`   // as --model takes it
	Weights string            `json:"weights"`                          // "" for those of the checkpoint
	KV      string            `json:"kv"`                               // "" for that of the weights
	TP      int               `json:"tp" jsonschema:"minimum=1"`        // GPUs that share every matrix
	Kernels string            `json:"kernels" jsonschema:"minLength=1"` // what was timed
	Plan    ServedPlan        `json:"plan"`                             // bounds of the points that are drawn
	Tools   map[string]string `json:"versions"`                         // version of the server
	Version string            `json:"llmprof" jsonschema:"minLength=1"` // version of the program that measured
	When    time.Time         `json:"when"`
	Notes   []string          `json:"notes,omitempty"` // settings of the server, which a calibration has too
}

// A servedRow is a line of a file: what was seen of one point.
type servedRow struct {
	Schema string `json:"schema"`
	Kind   string `json:"kind" jsonschema:"enum=served"` // "served"
	Index  int    `json:"index"`                         // place in the plan
	ServedPoint
}

// The kinds of lines of a file of points.
const (
	serverKind = "server"
	servedKind = "served"
)

// check returns what is wrong with the line of the server, if anything is.
func (s *Server) check() error {
	switch p := &s.Plan; {
	case s.GPU == "" || s.Engine == "" || s.Model == "" || s.Kernels == "" || s.Version == "":
		return fmt.Errorf("the line of the server lacks gpu, engine, model, kernels or llmprof")
	case s.TP < 1 || s.TP > 1024:
		return fmt.Errorf("the line of the server has a tp of %d: want from 1 to 1024", s.TP)
	case p.MostTokens < 1 || p.MostTokens > mostContext || p.MostBatch < 1 || p.MostBatch > mostBatch || p.Answer < 1 ||
		p.Answer > mostContext || p.MostTogether < 1:
		return fmt.Errorf("the line of the server has a plan of %+v: want sizes above 0", *p)
	case s.When.IsZero():
		return fmt.Errorf("the line of the server does not say when it was")
	}
	return nil
}

// What points of a server have at most.
const (
	mostContext = 1 << 24
	mostBatch   = 1 << 16
)

func (r *servedRow) check() error {
	switch p := &r.ServedPoint; {
	case r.Index < 0 || r.Index >= 2*servedRounds:
		return fmt.Errorf("index %d: a plan has %d points", r.Index, 2*servedRounds)
	case p.Batch < 1 || p.Batch > mostBatch || p.Context < 1 || p.Context > mostContext || p.First && p.Batch != 1:
		return fmt.Errorf("%d requests at a context of %d: want sizes above 0, and prompts one at a time", p.Batch, p.Context)
	case !(p.Seconds > 0 && p.Seconds < 1e4):
		return fmt.Errorf("%v took %v s: want a time above 0", p, p.Seconds)
	}
	return nil
}

// ServedRows are the points of a file, with the server that they were measured on.
type ServedRows struct {
	Server Server
	Points []ServedPoint
	Torn   int // bytes of a last line that was never finished

	at map[int]bool // places in the plan
}

// Has reports whether the point at a place in the plan was measured.
func (out *ServedRows) Has(index int) bool { return out.at[index] }

func (out *ServedRows) add(index int, p *ServedPoint) {
	if out.at == nil {
		out.at = map[int]bool{}
	}
	out.at[index] = true
	out.Points = append(out.Points, *p)
}

// IsServed reports whether a file has points of a server, not rows of operators.
func IsServed(path string) bool {
	head, err := readLines(path, func(_ string, text []byte) (*lineKind, error) {
		line, _, _ := bytes.Cut(text, []byte("\n"))
		var head lineKind
		return &head, json.Unmarshal(line, &head)
	})
	return err == nil && *head == lineKind{RowSchema, serverKind}
}

// ReadServed reads a file of points of a server. A last line without its end is left out.
func ReadServed(path string) (*ServedRows, error) { return readLines(path, parseServed) }

// parseServed reads the lines of a file of points, named path in messages.
func parseServed(path string, text []byte) (rows *ServedRows, err error) {
	rows = &ServedRows{}
	rows.Torn, err = eachLine(path, text, &rows.Server, serverKind, func(kind string, strict *json.Decoder) error {
		var r servedRow
		if kind != servedKind {
			return fmt.Errorf("a line of kind %.60q in a file of a server: want %q", kind, servedKind)
		}
		if err := strict.Decode(&r); err != nil {
			return err
		}
		if rows.Has(r.Index) {
			return fmt.Errorf("point %d comes a second time", r.Index)
		}
		rows.add(r.Index, &r.ServedPoint)
		return r.check()
	})
	return rows, err
}

// A ServedFile is one that points are added to, each a whole line. Without a path it keeps them in memory alone.
type ServedFile struct {
	ServedRows
	file *lineFile
}

// OpenServed opens a file of points to add to, and cuts off a torn last line. A new file begins with the server.
func OpenServed(path string, s *Server) (out *ServedFile, err error) {
	s.Schema, s.Kind = RowSchema, serverKind
	out = &ServedFile{ServedRows: ServedRows{Server: *s}}
	if path == "" {
		return out, nil
	}
	out.file, err = openLines(path, s, func() (torn int, err error) {
		had, err := ReadServed(path)
		if err != nil {
			return 0, err
		}
		out.ServedRows = *had
		return had.Torn, sameHead(path, &had.Server, s, "gpu", "engine", "model", "weights", "kv", "tp", "kernels", "plan")
	})
	return out, err
}

// Add keeps a point, on the disk before the next is measured.
func (out *ServedFile) Add(index int, p *ServedPoint) error {
	out.add(index, p)
	return out.file.write(servedRow{RowSchema, servedKind, index, *p})
}

// Close closes the file.
func (out *ServedFile) Close() error { return out.file.Close() }

// A ServedPlan bounds the points that are drawn.
type ServedPlan struct {
	Seed         uint64 `json:"seed"`
	MostTokens   int    `json:"most_tokens" jsonschema:"minimum=1"`   // most tokens of a prompt with its answer
	MostBatch    int    `json:"most_batch" jsonschema:"minimum=1"`    // most requests at a time
	MostTogether int    `json:"most_together" jsonschema:"minimum=1"` // tokens of all prompts that run at a time
	Answer       int    `json:"answer_tokens" jsonschema:"minimum=1"` // tokens generated for a decode step's time
}

// shortest is the fewest tokens of a prompt that is drawn.
const shortest = 32

// servedRounds is how many points of each kind are drawn.
const servedRounds = 15

// Draw lists points without a time, in an order in which any beginning of the list is spread
// over all lengths and batches. Every third of each kind is held out.
func (p *ServedPlan) Draw() (points []ServedPoint) {
	const golden, plastic = 0.6180339887498949, 0.7548776662466927
	frac := func(x float64) float64 { return x - math.Floor(x) }
	between := func(low, high int, u float64) int {
		return int(math.Round(float64(low) * math.Pow(float64(max(high, low))/float64(low), u)))
	}
	offset := frac(float64(p.Seed%1000) * golden)
	longest := max(p.MostTokens-p.Answer, shortest)
	for i := range servedRounds {
		u, w := frac(offset+float64(i)*golden), frac(offset+float64(i)*plastic)
		held := i%folds == folds-1
		prompt := between(shortest, longest, u) // short prompts, where the host shows
		if i%2 == 1 {
			prompt = between(max(longest/8, shortest), longest, u) // long prompts, where arithmetic shows
		}
		batch := between(1, max(p.MostBatch, 1), w)
		room := min(longest, max(p.MostTogether/batch, shortest))
		points = append(points,
			ServedPoint{First: true, Batch: 1, Context: prompt, HeldOut: held},
			ServedPoint{Batch: batch, Context: between(shortest, room, frac(u+0.5)), HeldOut: held})
	}
	return points
}
