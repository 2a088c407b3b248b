package power

import (
	"context"
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"llmprof/measure/result"
	"llmprof/unit"
)

// nvidia-smi is asked for these, once for a board and at each sample. An older driver
// answers names that it does not know with an error that names them.
var (
	smiBoards = []string{"uuid", "name", "memory.total", "enforced.power.limit", "persistence_mode", "mig.mode.current", "ecc.mode.current",
		"driver_version"}
	smiSample = []string{"power.draw.instant", "clocks.sm", "clocks.mem", "temperature.gpu", "utilization.gpu", "utilization.memory",
		"memory.used", "clocks_event_reasons.active",
		"clocks.max.sm", "clocks.max.memory", "enforced.power.limit", "power.default_limit"}
	smiRunning = []string{"pid", "name", "used_memory"}
	smiListed  = []string{"name", "memory.total", "pci.bus_id", "uuid"}
)

// A Listed is a GPU as nvidia-smi lists it. What it does not say is "" or nil.
type Listed struct {
	Name, Bus, UUID string
	Memory          *unit.Bytes
}

// List asks nvidia-smi which GPUs there are.
func List(ctx context.Context) ([]Listed, error) {
	o := Options{}.withDefaults()
	rows, err := querySMI(ctx, o.Run, "--query-gpu=", smiListed)
	var all []Listed
	for _, row := range rows {
		g := Listed{Name: row[0], Bus: row[2], UUID: row[3]}
		if n := mebibytes(row[1]); n != nil {
			g.Memory = new(unit.Bytes(*n))
		}
		all = append(all, g)
	}
	return all, err
}

// openSMI lists the boards that nvidia-smi knows.
func openSMI(ctx context.Context, o *Options) (*driver, error) {
	rows, err := querySMI(ctx, o.Run, "--query-gpu=", smiBoards)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoDriver, err)
	}
	d := &driver{shut: func() error { return nil }}
	for _, row := range rows {
		g := result.GPU{UUID: row[0], Name: row[1]}
		g.MemoryBytes, g.PowerLimitW = mebibytes(row[2]), scaled(row[3], 1)
		g.Persistence, g.MIG, g.ECC = enabled(row[4]), enabled(row[5]), enabled(row[6])
		d.version = row[7]
		d.boards = append(d.boards, &smiBoard{uuid: g.UUID, run: within(ctx, o.Run)})
		d.gpus = append(d.gpus, g)
	}
	return d, nil
}

// within is a runner whose programs end with a context: readings that are under way do not outlast the command.
func within(outer context.Context, run Runner) Runner {
	return func(ctx context.Context, name string, args ...string) ([]byte, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(outer, func() { cancel(context.Cause(outer)) })()
		return run(ctx, name, args...)
	}
}

// querySMI asks nvidia-smi for fields and returns a row for each board or process.
func querySMI(ctx context.Context, run Runner, query string, fields []string, more ...string) ([][]string, error) {
	out, err := run(ctx, "nvidia-smi", append([]string{query + strings.Join(fields, ","), "--format=csv,noheader,nounits"}, more...)...)
	if err != nil {
		return nil, fmt.Errorf("nvidia-smi: %w%s", err, clip(string(out)))
	}
	return parseSMI(string(out), len(fields))
}

// clip is the first line of what a program printed, as the end of an error.
func clip(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if line == "" {
		return ""
	}
	return fmt.Sprintf(" (%.120s)", line)
}

// parseSMI reads CSV without a head, whose commas have a space behind them. The tool prints warnings among the rows, as of
// a corrupted infoROM: a line without a comma is none where several fields were asked for.
func parseSMI(text string, fields int) ([][]string, error) {
	r := csv.NewReader(strings.NewReader(text))
	r.TrimLeadingSpace, r.FieldsPerRecord, r.LazyQuotes = true, -1, true
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("nvidia-smi printed no CSV: %w", err)
	}
	rows = slices.DeleteFunc(rows, func(row []string) bool { return len(row) == 1 && fields > 1 })
	for _, row := range rows {
		if len(row) != fields {
			return nil, fmt.Errorf("nvidia-smi printed %d fields where %d were asked for: %.120q", len(row), fields, strings.Join(row, ", "))
		}
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
			if hidden := strings.IndexFunc(row[i], func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }); hidden >= 0 ||
				len(row[i]) > mostField {
				return nil, fmt.Errorf("nvidia-smi printed %.60q, %d bytes long: want at most %d, all of them printable", row[i], len(row[i]),
					mostField)
			}
		}
	}
	return rows, nil
}

// mostField is the most bytes of a field: of names of processes, paths are the longest.
const mostField = 4096

// scaled reads a number of a unit, nil if there is none.
func scaled(text string, unit float64) *float64 {
	if v, ok := quantity(text); ok {
		return new(v * unit)
	}
	return nil
}

// mebibytes reads a number of MiB.
func mebibytes(text string) *int64 {
	if mib, ok := quantity(text); ok && mib < 1<<40 {
		return new(int64(mib) << 20)
	}
	return nil
}

// quantity reads a number; "[N/A]" and the like are none.
func quantity(text string) (float64, bool) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v != v || v-v != 0 || v < 0 {
		return 0, false
	}
	return v, true
}

func enabled(text string) *bool {
	switch text {
	case "Enabled":
		return new(true)
	case "Disabled":
		return new(false)
	}
	return nil
}

// An smiBoard is a GPU through nvidia-smi: a process for every sample.
type smiBoard struct {
	uuid string
	run  Runner
	mu   sync.Mutex
	last *state
}

func (b *smiBoard) id() string               { return b.uuid }
func (b *smiBoard) sensor() string           { return "nvidia-smi power" }
func (b *smiBoard) coarse() bool             { return true }
func (b *smiBoard) period() time.Duration    { return coarsePeriod }
func (b *smiBoard) joules() (float64, error) { return 0, errNoCounter }
func (b *smiBoard) held() map[string]float64 { return nil }

// watts asks for everything at once; state gives the rest of the answer.
func (b *smiBoard) watts() (float64, error) {
	rows, err := querySMI(context.Background(), b.run, "--query-gpu=", smiSample, "--id="+b.uuid)
	if err != nil {
		return 0, err
	}
	if len(rows) != 1 {
		return 0, fmt.Errorf("nvidia-smi printed %d lines for GPU %s", len(rows), b.uuid)
	}
	watts, ok := quantity(rows[0][0])
	if !ok {
		return 0, fmt.Errorf("nvidia-smi gives %q for the power of GPU %s", rows[0][0], b.uuid)
	}
	b.mu.Lock()
	b.last = smiState(rows[0])
	b.mu.Unlock()
	return watts, nil
}

// smiState reads the fields of smiSample after the power.
func smiState(row []string) *state {
	s := &state{
		smHz: scaled(row[1], 1e6), memoryHz: scaled(row[2], 1e6), celsius: scaled(row[3], 1), busy: scaled(row[4], 0.01),
		memoryBusy: scaled(row[5], 0.01),
		used:       mebibytes(row[6]), smMaxHz: scaled(row[8], 1e6), memoryMaxHz: scaled(row[9], 1e6), limit: scaled(row[10], 1),
		limitDefault: scaled(row[11], 1),
	}
	if mask, err := strconv.ParseUint(strings.TrimPrefix(row[7], "0x"), 16, 64); err == nil {
		s.reasons = reasonsOf(mask)
	}
	return s
}

// state is what came with the last power that was asked for; once it is taken, the
// program is asked again.
func (b *smiBoard) state() (*state, error) {
	if s := b.take(); s != nil {
		return s, nil
	}
	if _, err := b.watts(); err != nil {
		return nil, err
	}
	return b.take(), nil
}

func (b *smiBoard) take() *state {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.last
	b.last = nil
	return s
}

func (b *smiBoard) processes() ([]Process, error) {
	rows, err := querySMI(context.Background(), b.run, "--query-compute-apps=", smiRunning, "--id="+b.uuid)
	if err != nil {
		return nil, err
	}
	var all []Process
	for _, row := range rows {
		pid, err := strconv.Atoi(row[0])
		if err != nil {
			return nil, fmt.Errorf("nvidia-smi gives %q for the number of a process", row[0])
		}
		all = append(all, Process{UUID: b.uuid, PID: pid, Name: row[1], MemoryBytes: mebibytes(row[2])})
	}
	return all, nil
}
