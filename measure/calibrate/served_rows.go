package calibrate

import (
	"fmt"
	"math"
	"slices"
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

// A ServedPoint is a time that the client of a server saw: a line of a file.
type ServedPoint struct {
	Schema  string  `json:"schema"`
	Kind    string  `json:"kind" jsonschema:"enum=served"`            // "served"
	Index   int     `json:"index"`                                    // place in the plan
	First   bool    `json:"first"`                                    // TTFT of a request alone; else the time of a decode step
	Batch   int     `json:"batch" jsonschema:"minimum=1"`             // sequences that run at a time
	Context int     `json:"context" jsonschema:"minimum=1"`           // tokens of the prompt, or the mean context of the step
	Seconds float64 `json:"median_s" jsonschema:"exclusiveMinimum=0"` // the median
	HeldOut bool    `json:"held_out"`                                 // nothing is fitted to it
}

// The kinds of lines of a file of points.
const (
	ServerKind = "server"
	ServedKind = "served"
)

// String names the point.
func (p *ServedPoint) String() string {
	if p.First {
		return fmt.Sprintf("TTFT of a prompt of %d", p.Context)
	}
	return fmt.Sprintf("TPOT of %d at a context of %d", p.Batch, p.Context)
}

// is says how a file of the server's points is recognized.
func (*Server) is() (kind string, keys []string) {
	return ServerKind, []string{"gpu", "engine", "model", "weights", "kv", "tp", "kernels", "plan"}
}

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

// check returns what is wrong with a point, if anything is. Those before it have other places in the plan.
func (p *ServedPoint) check(before []ServedPoint) error {
	switch {
	case slices.ContainsFunc(before, func(b ServedPoint) bool { return b.Index == p.Index }):
		return fmt.Errorf("point %d comes a second time", p.Index)
	case p.Index < 0 || p.Index >= 2*servedRounds:
		return fmt.Errorf("index %d: a plan has %d points", p.Index, 2*servedRounds)
	case p.Batch < 1 || p.Batch > mostBatch || p.Context < 1 || p.Context > mostContext || p.First && p.Batch != 1:
		return fmt.Errorf("%d requests at a context of %d: want sizes above 0, and prompts one at a time", p.Batch, p.Context)
	case !(p.Seconds > 0 && p.Seconds < 1e4):
		return fmt.Errorf("%v took %v s: want a time above 0", p, p.Seconds)
	}
	return nil
}

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
	for i := range points {
		points[i].Schema, points[i].Kind, points[i].Index = RowSchema, ServedKind, i
	}
	return points
}
