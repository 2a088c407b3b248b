package replay

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// What a user has to say where a trace does not.
var (
	ErrUnit  = errors.New("the unit of the trace's times is not known")
	ErrBlock = errors.New("how many tokens a hash of the trace is of is not known")
)

// A seenTimes is what the first times of a trace are.
type seenTimes struct {
	at        *field // the last that is a number, or the first
	fractions bool   // some are no whole numbers
	large     error  // the first number that may be one since 1970 in another unit than the form's
}

func (t *Trace) seenTimes(some []*record) (seen seenTimes) {
	unit := cmp.Or(t.form.unit, "s")
	for _, r := range some {
		f := r.get(t.form.at)
		if f == nil {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(f.value), 64)
		if seen.at == nil || err == nil { // A failed request may have no time.
			seen.at = f
		}
		seen.fractions = seen.fractions || err == nil && v != math.Trunc(v)
		if err == nil && seen.large == nil && math.Abs(v*units[unit]) >= mostMoment && since1970(v) != "" {
			seen.large = fmt.Errorf("%w: line %d: %s: %.40s is no time in %s%s", ErrUnit, r.line, f.key, f.value, unitNames[unit], since1970(v))
		}
	}
	return seen
}

// decide finds the unit of times and the tokens of a hash by the first records of a trace. The form says the unit unless the hashes are
// other than the form has them.
func (t *Trace) decide(some []*record) error {
	known, err := t.decideBlock(some)
	if err != nil {
		return err
	}
	seen := t.seenTimes(some)
	given, said := t.options.Unit, ""
	if t.form.top != nil {
		said = t.form.unit
	}
	if seen.at != nil {
		said = stated(seen.at.key)
		if _, kind := date(strings.TrimSpace(seen.at.value)); kind != "" {
			said = "date"
		}
	}
	switch {
	case given != "" && said != "" && given != said:
		return fmt.Errorf("its times are %s, not %s", cmp.Or(unitNames[said], "dates"), unitNames[given])
	case said != "":
		t.unit(said, "")
	case given != "":
		t.unit(given, "as given")
	case seen.large != nil:
		return seen.large
	case known && t.form.unit == "ms" && seen.fractions:
		return fmt.Errorf("%w: %s has whole milliseconds, and these are fractions", ErrUnit, t.form.what)
	case known && t.form.unit != "":
		t.unit(t.form.unit, "")
		t.times.whole = t.form.unit == "ms"
	case seen.fractions:
		t.unit("s", "since they are fractions")
	case t.options.lengths || seen.at == nil:
		t.unit("s", "")
	default:
		return fmt.Errorf("%w: whole numbers under %q are milliseconds in Mooncake's traces, whose hashes are of 512 tokens, "+
			"and seconds in Bailian's, which have a chat_id and hashes of 16", ErrUnit, seen.at.key)
	}
	return nil
}

func (t *Trace) unit(name, why string) {
	t.Unit = name
	if why != "" {
		t.why = append(t.why, "times "+why)
	}
}

// decideBlock finds how many tokens a hash is of: as the number of hashes of the prompts has it. It reports whether
// that is what the form says.
func (t *Trace) decideBlock(some []*record) (known bool, err error) {
	var prompts, hashes []int
	for _, r := range some {
		f, prompt := r.get(hashIDs), r.get(t.form.prompt)
		var list []json.RawMessage
		if f == nil || prompt == nil || json.Unmarshal([]byte(f.value), &list) != nil || len(list) == 0 {
			continue
		}
		if n, err := tokens(prompt.key, prompt.value); err == nil && n > 0 {
			prompts, hashes = append(prompts, n), append(hashes, len(list))
		}
	}
	given := t.options.Block
	if len(prompts) == 0 {
		if given > 0 && !t.options.lengths {
			return false, errors.New("the trace has no hashes of blocks, whose tokens were given")
		}
		return true, nil
	}
	var fitting []int
	for block := 1; block <= mostBlock; block *= 2 {
		if fits(block, prompts, hashes) {
			fitting = append(fitting, block)
		}
	}
	t.Hashed = true
	last := fmt.Sprintf("%d hashes of %d tokens", hashes[len(hashes)-1], prompts[len(prompts)-1])
	switch {
	case given > 0 && len(fitting) > 0 && !fits(given, prompts, hashes):
		return false, fmt.Errorf("hashes of %d tokens are not what the trace has: its prompts have hashes of %s, as %s",
			given, blocks(fitting), last)
	case given > 0:
		t.Block, known = given, t.form.block == 0 || t.form.block == given
		t.why = append(t.why, "hashes as given")
	case slices.Contains(fitting, t.form.block):
		t.Block, known = t.form.block, true
	case len(fitting) == 1:
		t.Block, known = fitting[0], t.form.block == 0
		t.why = append(t.why, "hashes by their number, as "+last)
	case t.options.lengths:
		return true, nil
	default:
		return false, fmt.Errorf("%w: the prompts have hashes of %s, as %s", ErrBlock, blocks(fitting), last)
	}
	return known, nil
}

// mostBlock is the largest block that is looked for.
const mostBlock = 1 << 13

// fits reports whether nine of ten prompts have as many hashes as they have blocks; the last one may be left out
// where it is not full.
func fits(block int, prompts, hashes []int) bool {
	n := 0
	for i, tokens := range prompts {
		if full := tokens / block; hashes[i] == full || hashes[i] == full+1 && tokens%block > 0 {
			n++
		}
	}
	return 10*n >= 9*len(prompts)
}

func blocks(fitting []int) string {
	if len(fitting) == 0 {
		return "no one length"
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(fitting), "[]"), " ", " or ") + " tokens"
}

// Decided says what a trace is, and by what its unit and its blocks are known.
func (t *Trace) Decided() string {
	times := "times as dates"
	if name, ok := unitNames[t.Unit]; ok {
		times = "times in " + name
	}
	text := t.Format + ", " + times
	if t.Block > 0 {
		text += fmt.Sprintf(", hashes of %d tokens", t.Block)
	}
	if t.sorted.runs > 1 {
		text += fmt.Sprintf(", %d runs one after the other", t.sorted.runs)
	}
	if len(t.why) > 0 {
		text += " (" + strings.Join(t.why, "; ") + ")"
	}
	return text
}
