package result

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Check says what about r cannot be, all of it at once: figures that contradict
// each other or are of no measurement. What is only doubtful is for Marks.
func Check(r *Result) error {
	c := &checker{}
	c.identity(r)
	c.workload(r)
	c.numbers("", reflect.ValueOf(r))
	c.times(r)
	c.serving(r.Serving)
	c.operators(r.Operators)
	c.energy(r.Energy)
	c.absent(r)
	c.provenance(&r.Provenance)
	return errors.Join(c.found...)
}

// A checker collects what is wrong, as much of it as is read.
type checker struct{ found []error }

// mostFound is enough to see what is wrong.
const mostFound = 20

// hold notes the text unless ok.
func (c *checker) hold(ok bool, format string, args ...any) {
	switch {
	case ok || len(c.found) > mostFound:
	case len(c.found) == mostFound:
		c.found = append(c.found, fmt.Errorf("there is more that cannot be; the first %d are listed", mostFound))
	default:
		c.found = append(c.found, short{fmt.Errorf(format, args...)})
	}
}

// idPattern is what can be the name of a file everywhere, and of no hidden one.
const idPattern = `^[A-Za-z0-9][A-Za-z0-9._-]{0,159}$`

// ValidID reports whether id can be that of an experiment: its results are
// files that are named after it.
func ValidID(id string) bool { return regexp.MustCompile(idPattern).MatchString(id) }

func (c *checker) identity(r *Result) {
	c.hold(r.Schema == Schema, "schema %q: want %q", r.Schema, Schema)
	c.hold(ValidID(r.ID), "id %.80q: want a letter or digit, then up to 159 letters, digits, dots, dashes and underscores", r.ID)
	c.hold(r.Processes >= 1, "processes is %d: want at least 1", r.Processes)
	c.hold(r.Process >= 0 && r.Process < max(r.Processes, 1), "process is %d of %d: they count from 0", r.Process, r.Processes)
	c.hold(r.Cycle >= 0, "cycle is %d: cycles count from 0", r.Cycle)
	c.hold(!r.Started.IsZero(), "started is not given")
	c.hold(!r.Ended.Before(r.Started), "ended (%v) is before started (%v)", r.Ended, r.Started)
	c.hold(r.Model.Name != "", "model.name is empty")
	c.hold(r.Engine.Name != "", "engine.name is empty")
}

func (c *checker) workload(r *Result) {
	for key, n := range map[string]int{
		"workload.prompt_len": r.Workload.PromptLen, "workload.gen_len": r.Workload.GenLen, "parallelism.replicas": r.Parallelism.Replicas,
	} {
		c.hold(n >= 1, "%s is %d: want at least 1", key, n)
	}
	for key, n := range map[string]int{
		"workload.batch": r.Workload.Batch, "parallelism.tp": r.Parallelism.TP, "parallelism.pp": r.Parallelism.PP,
		"parallelism.ep": r.Parallelism.EP, "parallelism.dp": r.Parallelism.DP,
	} {
		c.hold(n >= 1 || n == 0 && r.Serving != nil, "%s is %d: want at least 1, or null of a server", key, n)
	}
	c.hold(r.Workload.GenLen > 1 || r.TPOT == nil, "tpot_s has a value although one token was generated: there is no time between tokens")
}

// absent wants a reason for what is null, and none for what is not.
func (c *checker) absent(r *Result) {
	known := figures(r)
	for _, key := range slices.Sorted(maps.Keys(known)) {
		measured := known[key]
		c.hold(measured || strings.TrimSpace(r.Reasons[key]) != "", "%s is null and reasons does not say why", key)
		c.hold(!measured || r.Reasons[key] == "", "%s has a value and reasons says why it has none: %s", key, r.Reasons[key])
	}
}

// provenance checks that the hash is of the settings.
func (c *checker) provenance(p *Provenance) {
	if len(p.Settings) == 0 || string(p.Settings) == "null" {
		return
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, p.Settings); err != nil {
		c.hold(false, "provenance.settings: %w", err)
		return
	}
	sum := sha256.Sum256(compact.Bytes())
	want := hex.EncodeToString(sum[:])
	c.hold(p.Hash == want, "provenance.config_hash is %.80q, but the settings' is %s: one of them was changed", p.Hash, want)
}
