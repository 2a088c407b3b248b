package power

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"llmprof/internal/child"
)

// tegraPeriod is how often tegrastats prints: its least is not documented, and
// prints take milliseconds of a core.
const tegraPeriod = 100 * time.Millisecond

// tegraLimit is how long its first line may take.
const tegraLimit = 10 * time.Second

// A tegraSensor reads what NVIDIA's program prints.
type tegraSensor struct {
	rails []rail
	scope string
}

// openTegrastats runs the program once, to see which rails it prints.
func openTegrastats(ctx context.Context) (*tegraSensor, error) {
	w, err := runTegrastats(ctx, nil)
	if err != nil {
		return nil, err
	}
	err = w.first(ctx)
	_ = w.finish() // its end was asked for
	if err != nil {
		return nil, err
	}
	s := &tegraSensor{}
	s.rails, s.scope = railsOf(w.names)
	s.scope += " by tegrastats"
	return s, nil
}

// A tegraWatch is the program while it runs.
type tegraWatch struct {
	*tegraSensor
	*child.Child
	names   []string // names of the rails in the first line
	samples map[string][]Sample
	failed  error         // error of reading, valid after the program's end
	any     chan struct{} // closed at the first line with rails
}

// runTegrastats runs the program until it is ended or ctx is done.
func runTegrastats(ctx context.Context, s *tegraSensor) (w *tegraWatch, err error) {
	w = &tegraWatch{tegraSensor: s, samples: map[string][]Sample{}, any: make(chan struct{})}
	w.Child, err = child.Start(child.Spec{
		Command: []string{"tegrastats", "--interval", strconv.FormatInt(tegraPeriod.Milliseconds(), 10)},
		Output:  w.read, Grace: time.Second,
	})
	if err == nil {
		context.AfterFunc(ctx, func() { w.End(ctx) })
	}
	return w, err
}

// finish ends the program, and says what went wrong before.
func (w *tegraWatch) finish() error {
	var died error
	select {
	case <-w.Ended():
		if how := w.How(); how != child.Well {
			died = fmt.Errorf("tegrastats: %s", how)
		}
	default:
		w.End(context.Background())
	}
	return errors.Join(w.failed, died)
}

// read takes lines as they come; a line's time is when it came.
func (w *tegraWatch) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	var last time.Time
	for lines.Scan() {
		now := time.Now()
		if now.Sub(last) < tegraPeriod/10 { // A program that prints without a pause would fill the memory.
			continue
		}
		last = now
		powers := parseTegrastats(lines.Text())
		for _, p := range powers {
			w.samples[p.rail] = append(w.samples[p.rail], Sample{Time: now, Domain: p.rail, Watts: p.watts})
		}
		if len(powers) > 0 && w.names == nil {
			for _, p := range powers {
				w.names = append(w.names, p.rail)
			}
			close(w.any)
		}
	}
	if err := lines.Err(); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		w.failed = fmt.Errorf("tegrastats: %w", err)
		_, _ = io.Copy(io.Discard, out) // until it is ended
	}
}

// first waits for a line.
func (w *tegraWatch) first(ctx context.Context) error {
	limit := time.NewTimer(tegraLimit)
	defer limit.Stop()
	select {
	case <-w.any:
		return nil
	case <-w.Ended():
		return errors.Join(w.failed, errors.New("tegrastats printed no power of any rail"))
	case <-limit.C:
		return fmt.Errorf("tegrastats printed no power in %v", tegraLimit)
	case <-ctx.Done():
		return fmt.Errorf("tegrastats printed no power: %w", context.Cause(ctx))
	}
}

func (s *tegraSensor) begin(ctx context.Context) (watch, error) {
	w, err := runTegrastats(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := w.first(ctx); err != nil {
		_ = w.finish() // its end was asked for
		return nil, err
	}
	return w, nil
}

func (w *tegraWatch) end(context.Context) (*reading, error) {
	time.Sleep(tegraPeriod) // the last line is of before the end
	if err := w.finish(); err != nil {
		return nil, err
	}
	return railDomains(w.rails, "tegrastats", w.samples)
}

// A railPower is what one line says of a rail.
type railPower struct {
	rail  string
	watts float64
}

// Words of a line of tegrastats. A rail is a name followed by its power: now and
// mean, and from JetPack 7.2 on the peak too. It can be below zero on an idle Thor.
var (
	railName  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`) })
	railWatts = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(-?\d{1,9})(mW)?/(-?\d{1,9})(mW)?(/(-?\d{1,9})(mW)?)?$`)
	})
)

// parseTegrastats finds the rails of a line and their power at the moment, those
// that are not connected left out.
func parseTegrastats(line string) []railPower {
	var found []railPower
	words := strings.Fields(line)
	for i := 1; i < len(words); i++ {
		if !railName().MatchString(words[i-1]) || words[i-1] == "NC" {
			continue
		}
		m := railWatts().FindStringSubmatch(words[i])
		if m == nil {
			continue
		}
		if mw, err := strconv.Atoi(m[1]); err == nil {
			found = append(found, railPower{words[i-1], float64(mw) / 1e3})
		}
	}
	return found
}
