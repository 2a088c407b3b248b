package deployment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"llmprof"
	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/unit"
)

// A Library reads models, GPUs and calibrations, each once. It may be used by several goroutines at once.
type Library struct {
	hub       func() models.Hub // nil where Other finds what is not built in
	userTable bool              // GPUs of the configuration folder count
	other     func(table *models.Table, name string, lenient bool) (*models.Model, error)

	table    *models.Table // is guarded by the lock of models
	models   memo[modelKey, *models.Model]
	mixed    memo[mixedKey, *models.Model] // the last model that was quantized
	mixedOf  *models.Model
	tables   memo[string, *hardware.Table]
	gpus     memo[[2]string, *hardware.GPU]
	files    memo[string, *Calibrations]
	machines memo[machineKey, *analytic.Machine]
}

// A memo keeps what was made, by its key. An error is not kept.
type memo[K comparable, V any] struct {
	mu  sync.Mutex
	all map[K]V
}

// has reports whether something was made.
func (m *memo[K, V]) has(key K) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.all[key]
	return ok
}

// once finds what was made before by its key, or makes it.
func (m *memo[K, V]) once(key K, create func() (V, error)) (V, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.all[key]; ok {
		return v, nil
	}
	v, err := create()
	if err == nil && m.all == nil {
		m.all = map[K]V{}
	}
	if err == nil {
		m.all[key] = v
	}
	return v, err
}

// A modelKey is a model as it is asked for.
type modelKey struct {
	name             string
	offline, lenient bool
}

// A mixedKey is a model with the mix of formats that it is quantized by.
type mixedKey struct {
	model *models.Model
	mix   string
}

// A machineKey is a GPU with its engine as they are asked for.
type machineKey struct {
	gpu, hardware, engine, calibration string
	links                              hardware.Links
	host                               string
	graphs                             engine.Graphs
}

// Open is the library of this machine: what is built in, with files, the hub that the environment names, and the user's table of GPUs.
func Open(env func(string) string) *Library {
	l := Within(nil)
	l.hub, l.userTable = func() models.Hub { return models.HubFromEnv(env) }, true
	return l
}

// Within is a library of what is built in. Other finds models of other names; nil refuses them.
func Within(other func(table *models.Table, name string, lenient bool) (*models.Model, error)) *Library {
	return &Library{other: other}
}

// BuiltInModels is the table of models that comes with the program.
func BuiltInModels() *models.Table { return built(models.Load(llmprof.ModelsJSON)) }

// BuiltInGPUs is the table of GPUs that comes with the program.
func BuiltInGPUs() *hardware.Table { return built(hardware.Load(llmprof.HardwareTOML)) }

// built is a table that comes with the program: a mistake in it is one of the program, which every test finds.
func built[T any](table T, err error) T {
	if err != nil {
		panic(err)
	}
	return table
}

// Model reads the model that a name stands for. Lenient notes what of a config.json is not understood, instead of refusing it.
func (l *Library) Model(ctx context.Context, name string, offline, lenient bool) (*models.Model, error) {
	return l.models.once(modelKey{name, offline, lenient}, func() (*models.Model, error) {
		if l.table == nil {
			l.table = BuiltInModels()
		}
		switch {
		case l.hub != nil:
			hub := l.hub()
			hub.Offline = hub.Offline || offline
			return models.Resolver{Table: l.table, Hub: hub, Lenient: lenient}.Resolve(ctx, name)
		case l.other != nil:
			return l.other(l.table, name, lenient)
		}
		return l.table.Model(name)
	})
}

// GPUs is the built-in table overlaid with that of a file, if one is named, or else with the user's own, if there is one.
func (l *Library) GPUs(file string) (*hardware.Table, error) {
	return l.tables.once(file, func() (*hardware.Table, error) {
		t := BuiltInGPUs()
		switch {
		case file != "":
			return t.OverlayFile(file)
		case !l.userTable:
			return t, nil
		}
		if path, err := userFile(); err == nil {
			u, err := t.OverlayFile(path)
			if !errors.Is(err, fs.ErrNotExist) {
				return u, err
			}
		}
		return t, nil
	})
}

// GPU looks a GPU up in that table.
func (l *Library) GPU(name, file string) (*hardware.GPU, error) {
	return l.gpus.once([2]string{name, file}, func() (*hardware.GPU, error) {
		if file == "" && !l.tables.has(file) && (!l.userTable || !userFileExists()) {
			g, err := hardware.Find(llmprof.HardwareTOML, name)
			return &g, err
		}
		t, err := l.GPUs(file)
		if err != nil {
			return nil, err
		}
		g, err := t.GPU(name)
		return &g, err
	})
}

// userFileExists reports whether the user has a table of GPUs, or may have: what cannot be looked at is left to the reader to report.
func userFileExists() bool {
	path, err := userFile()
	if err != nil {
		return false
	}
	_, err = os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// userFile is where a user's own table is looked for unless one is named: llmprof/hardware.toml in the user's configuration folder. It need
// not exist.
func userFile() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("no folder for a hardware file: %w", err)
	}
	return filepath.Join(dir, "llmprof", "hardware.toml"), nil
}

// Constants reads calibrations: that of a file, if one is named, and those that come with the program.
func (l *Library) Constants(file string) (*Calibrations, error) {
	return l.files.once(file, func() (*Calibrations, error) { return NewCalibrations(file) })
}

// quantize is models.Quantize, which takes longest of all that is prepared for a model.
func (l *Library) quantize(m *models.Model, mix string) (*models.Model, error) {
	l.mixed.mu.Lock()
	if l.mixedOf != m {
		l.mixed.all, l.mixedOf = nil, m
	}
	l.mixed.mu.Unlock()
	return l.mixed.once(mixedKey{m, mix}, func() (*models.Model, error) { return models.Quantize(m, mix) })
}

// machine is a GPU with an engine as a request asks for them.
func (l *Library) machine(q *Request, g *hardware.GPU, e analytic.Engine) (*analytic.Machine, error) {
	key := machineKey{q.GPU, q.Hardware, e.Profile().Name, q.Calibration, g.Links, fmt.Sprint(g.Host), q.graphs()}
	return l.machines.once(key, func() (*analytic.Machine, error) {
		files, err := l.Constants(q.Calibration)
		if err != nil {
			return nil, err
		}
		file, err := files.Only(g, e.Profile().Engine())
		if err != nil {
			return nil, err
		}
		return analytic.Calibrated(g, e, file)
	})
}

// Machine is the GPU of a request with its engine, under its limits and with its links.
func (l *Library) Machine(q *Request) (*analytic.Machine, error) {
	g, err := l.GPU(q.GPU, q.Hardware)
	if err != nil {
		return nil, err
	}
	d := Deployment{Request: q, from: l, GPU: g.Linked(q.links())}
	if d.runs, err = engine.Parse(q.Engine); err != nil {
		return nil, err
	}
	return d.machine(d.GPU)
}

// Known looks up every name that a request has.
func (l *Library) Known(ctx context.Context, q *Request) error {
	if q.Model != "" {
		if _, err := l.Model(ctx, q.Model, q.Offline, q.Lenient); err != nil {
			return err
		}
	}
	if q.DraftModel != "" && q.DraftModel != "ngram" {
		if _, err := l.Model(ctx, q.DraftModel, q.Offline, false); err != nil {
			return err
		}
	}
	if q.GPU != "" {
		if _, err := l.GPU(q.GPU, q.Hardware); err != nil {
			return err
		}
	}
	if _, err := l.Constants(q.Calibration); err != nil {
		return err
	}
	var err error
	if q.Engine != "" {
		_, err = engine.Parse(q.Engine)
	}
	if known := engine.SchedulerNames(); err == nil && q.Scheduler != "" && !slices.Contains(known, q.Scheduler) {
		err = unit.Errorf("{scheduler}: no scheduler %.40q is known: want one of %s", q.Scheduler, strings.Join(known, ", "))
	}
	if err == nil && q.Weights != "" {
		err = models.CheckWeights(q.Weights)
	}
	if err == nil {
		_, err = popularity(q.Skew)
	}
	return unit.Wrong(err)
}

// noCalibration asks for the defaults of the GPU's generation.
const noCalibration = "default"

// Calibrations find what a GPU and an engine reach in practice. A file that was named comes before those that come with the program.
type Calibrations struct {
	none  bool                      // the generation's defaults are asked for
	named *hardware.CalibrationFile // nil if none was
	found memo[string, *hardware.CalibrationFile]
	used  bool // named was
}

// NewCalibrations reads the file that was named, if one was.
func NewCalibrations(file string) (*Calibrations, error) {
	c := &Calibrations{none: file == noCalibration}
	if file == "" || c.none {
		return c, nil
	}
	var err error
	c.named, err = hardware.ReadCalibration(file)
	return c, err
}

// Of is the calibration of a GPU and an engine, nil where there is none.
func (c *Calibrations) Of(g *hardware.GPU, engine string) (*hardware.CalibrationFile, error) {
	if c.none {
		return nil, nil
	}
	return c.found.once(g.Key+"\x00"+engine, func() (*hardware.CalibrationFile, error) {
		return hardware.BuiltIn(llmprof.Calibrations, g, engine)
	})
}

// Only is the calibration of the one GPU that is asked for: a file of another is an error.
func (c *Calibrations) Only(g *hardware.GPU, engine string) (*hardware.CalibrationFile, error) {
	if c.named == nil {
		return c.Of(g, engine)
	}
	if err := c.named.Check(g); err != nil {
		return nil, unit.Errorf("{calibration}: %w", err)
	}
	return c.named, nil
}

// Among is the calibration of one GPU of many: the file serves its own.
func (c *Calibrations) Among(g *hardware.GPU, engine string) (*hardware.CalibrationFile, error) {
	if c.named == nil || c.named.GPU != g.Key {
		return c.Of(g, engine)
	}
	if !c.used { // predictions that run at once read it after the first
		c.used = true
	}
	return c.named, c.named.Check(g)
}

// Serves reports whether a GPU has the constants of the file that was named, or nothing else was.
func (c *Calibrations) Serves(gpu string) bool { return c.named == nil || c.named.GPU == gpu }

// Unused is the GPU of the file that was named if nothing asked for it; "" otherwise.
func (c *Calibrations) Unused() string {
	if c.named == nil || c.used {
		return ""
	}
	return c.named.GPU
}

// both reads the model and the GPU of a request.
func (l *Library) both(ctx context.Context, q *Request) (m *models.Model, g *hardware.GPU, err error) {
	g, gpuErr := l.GPU(q.GPU, q.Hardware)
	m, modelErr := l.Model(ctx, q.Model, q.Offline, q.Lenient)
	if modelErr != nil && gpuErr != nil {
		if _, err := l.GPU(q.Model, q.Hardware); err == nil {
			return nil, nil, unit.Errorf("%.40q is a GPU: give the model first, as in \"estimate llama3.1-8b h100\"", q.Model)
		}
	}
	return m, g, errors.Join(modelErr, gpuErr)
}
