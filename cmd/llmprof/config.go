package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/internal/tree"
	"llmprof/measure/experiment"
	"llmprof/plots/render"
	"llmprof/unit"
)

func (a *app) configValidate() *cobra.Command {
	o := &output{}
	cmd := &cobra.Command{
		Use:     "validate FILE...",
		Aliases: []string{"check"}, // the name of this command of "models" and "gpus"
		Short:   "Say all that is wrong with experiment files",
		Long: "Read experiment files (TOML, YAML or JSON) with all that they extend, and say everything that\n" +
			"is wrong, at its place: in them, in files that they name, with models and their lengths. Nothing is\n" +
			"fetched. Warnings are of what runs, and is probably not meant. The names of LLM Energy Measure's\n" +
			"files are read too. It fails if any file has a mistake.",
		Example: "  llmprof config validate experiment.toml\n  llmprof config validate --format json experiment.toml",
		Args:    cli.Needs("FILE", 1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			lab, err := a.lab(true)
			if err != nil {
				return err
			}
			check := func(file string) (experimentCheck, bool) {
				c := checkExperiment(file, func(p *experiment.Point) []experiment.Problem { return lab.Problems(cmd.Context(), p) })
				return c, c.OK
			}
			return checkFiles(a, o, args, "%d of %d experiments have mistakes", check, experimentsPage, errorTable)
		},
	}
	o.flags(cmd)
	return cmd
}

// An experimentCheck is what was found in one file.
type experimentCheck struct {
	File     string      `json:"file"`
	OK       bool        `json:"ok"`
	Name     *string     `json:"name"`
	Points   *int        `json:"points"`
	Runs     *int        `json:"runs"`
	Errors   []errorJSON `json:"mistakes"`
	Warnings []string    `json:"warnings"`

	text []string // the mistakes with their lines, for people
}

// A errorJSON is one mistake; line and column are null where they are not known.
type errorJSON struct {
	File    string `json:"file"`
	Line    *int   `json:"line"`
	Column  *int   `json:"column"`
	Problem string `json:"problem"`
}

func checkExperiment(file string, check func(*experiment.Point) []experiment.Problem) experimentCheck {
	c := experimentCheck{File: file, Errors: []errorJSON{}, Warnings: []string{}}
	e, err := experiment.Load(file, check)
	if err != nil {
		c.text = strings.Split(err.Error(), "\n")
		var errs tree.Errors
		if !errors.As(err, &errs) {
			errs = tree.Errors{{File: file, Problem: err.Error()}}
		}
		for _, m := range errs {
			c.Errors = append(c.Errors, errorJSON{m.File, unit.OrNull(m.Line), unit.OrNull(m.Column), m.Problem})
		}
		if e != nil {
			c.Warnings = append(c.Warnings, e.Warnings...)
		}
		return c
	}
	points, runs := len(e.Points), len(e.Points)*e.Cycles
	c.OK, c.Name, c.Points, c.Runs = true, &e.Name, &points, &runs
	c.Warnings = append(c.Warnings, e.Warnings...)
	return c
}

// errorTable is a mistake a row, and a row for each file without one.
func errorTable(checks []experimentCheck) *render.Table {
	t := render.Keyed("file", "ok", "points", "runs", "mistake_file", "line", "column", "problem")
	for i := range checks {
		c := &checks[i]
		if c.OK {
			t.Add(c.File, "yes", *c.Points, *c.Runs, nil, nil, nil, nil)
		}
		for _, m := range c.Errors {
			t.Add(c.File, "no", nil, nil, m.File, view.Cell(m.Line), view.Cell(m.Column), m.Problem)
		}
	}
	return t
}

func experimentsPage(checks []experimentCheck) *render.Document {
	t := render.Table{Columns: []render.Column{
		{Title: "file", Left: true}, {Title: "ok", Left: true}, {Title: "points"}, {Title: "runs"}, {Title: "mistakes"}, {Title: "warnings"},
	}}
	var wrong, warned []string
	for _, c := range checks {
		ok := render.Painted{Value: "yes", Color: render.Good}
		if !c.OK {
			ok = render.Painted{Value: "no", Color: render.Bad}
		}
		t.Add(c.File, ok, view.Cell(c.Points), view.Cell(c.Runs), len(c.Errors), len(c.Warnings))
		wrong = append(wrong, c.text...)
		for _, w := range c.Warnings {
			warned = append(warned, strings.Split(w, "\n")...)
		}
	}
	return &render.Document{Blocks: []render.Block{
		t, render.Verbatim{Title: "Mistakes", Lines: wrong}, render.Verbatim{Title: "Warnings", Lines: warned},
	}}
}

func (a *app) configShow() *cobra.Command {
	o := &output{}
	cmd := &cobra.Command{
		Use:   "show FILE",
		Short: "Show the settings of an experiment and its points",
		Long: "Show what an experiment file comes to: the settings with all that it extends, and each point\n" +
			"with the hash of its configuration, by which results are found again.",
		Example: "  llmprof config show experiment.toml\n  llmprof config show experiment.toml --format csv",
		Args:    cli.Needs("FILE", 1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := showExperiment(args[0])
			if err != nil {
				return err
			}
			return o.write(a, forms{page: s.page, table: s.table, data: func() any { return s }})
		},
	}
	o.flags(cmd)
	return cmd
}

// A shownExperiment is an experiment for programs.
type shownExperiment struct {
	Name      string           `json:"name"`
	File      string           `json:"file"`
	Cycles    int              `json:"cycles"`
	Order     experiment.Order `json:"order"`
	OrderSeed uint64           `json:"order_seed"`
	Gap       unit.Seconds     `json:"gap_s"`
	Runs      int              `json:"runs"`
	Metadata  map[string]any   `json:"metadata"`
	Warnings  []string         `json:"warnings"`
	Points    []shownPoint     `json:"points"`
}

// A shownPoint is a point with the hash of its settings.
type shownPoint struct {
	Hash     string           `json:"config_hash"`
	Settings experiment.Point `json:"settings"`
}

func showExperiment(file string) (*shownExperiment, error) {
	e, err := experiment.Load(file)
	if err != nil {
		return nil, fmt.Errorf("the experiment has mistakes:\n%w", err)
	}
	s := &shownExperiment{
		Name: e.Name, File: e.File, Cycles: e.Cycles, Order: e.Order, OrderSeed: e.OrderSeed, Gap: e.Gap,
		Runs: len(e.Points) * e.Cycles, Metadata: e.Metadata, Warnings: append([]string{}, e.Warnings...), Points: []shownPoint{},
	}
	for _, p := range e.Points {
		hash, err := p.Hash()
		if err != nil {
			return nil, err
		}
		s.Points = append(s.Points, shownPoint{hash, p.Shown()})
	}
	return s, nil
}

// varying lists the settings that are not the same in all points.
func (s *shownExperiment) varying() []string {
	var keys []string
	for _, key := range experiment.Settings() {
		for i := range s.Points {
			if !reflect.DeepEqual(s.Points[i].Settings.Value(key), s.Points[0].Settings.Value(key)) {
				keys = append(keys, key)
				break
			}
		}
	}
	return keys
}

// settingText is a setting as one cell; a list and a text as they are, nothing
// for what was not set.
func settingText(v any) any {
	switch v := v.(type) {
	case []string:
		if len(v) == 0 {
			return nil
		}
		return strings.Join(v, " ")
	case string:
		if v == "" {
			return nil
		}
	case bool, uint64:
		return fmt.Sprint(v)
	case *float64:
		return view.Cell(v)
	}
	return v
}

// table is a point a row, with all its settings.
func (s *shownExperiment) table() *render.Table {
	t := render.Keyed("point", "config_hash")
	for _, key := range experiment.Settings() {
		t.Columns = append(t.Columns, render.Column{Key: key})
	}
	for i := range s.Points {
		cells := []any{i, s.Points[i].Hash}
		for _, key := range experiment.Settings() {
			cells = append(cells, settingText(s.Points[i].Settings.Value(key)))
		}
		t.Add(cells...)
	}
	return t
}

// shownHash is how much of a hash people see; names of result files have as much.
const shownHash = 12

func (s *shownExperiment) page() *render.Document {
	runs := fmt.Sprintf("%d: %d points × %d cycles, %s", s.Runs, len(s.Points), s.Cycles, s.Order)
	if s.Order == experiment.Shuffled {
		runs += fmt.Sprintf(" by seed %d", s.OrderSeed)
	}
	if s.Gap > 0 {
		runs += fmt.Sprintf(", %v of rest between two", s.Gap)
	}
	frame := render.Fields{Rows: []render.Field{
		{Name: "File", Lines: []string{s.File}}, {Name: "Runs", Lines: []string{runs}},
	}}
	if len(s.Metadata) > 0 {
		if text, err := json.Marshal(s.Metadata); err == nil {
			frame.Add("Metadata", string(text))
		}
	}
	varying := s.varying()
	common := render.Fields{Title: "Settings of all points"}
	vary := map[string]bool{}
	points := render.Table{Title: "Points", Columns: []render.Column{{Title: "point"}, {Title: "hash", Left: true}}}
	for _, key := range varying {
		vary[key] = true
		points.Columns = append(points.Columns, render.Column{Title: key, Left: true, Max: 40})
	}
	for _, key := range experiment.Settings() {
		v := s.Points[0].Settings.Value(key)
		if !vary[key] && !reflect.ValueOf(v).IsZero() { // zero: not asked for
			common.Add(key, fmt.Sprint(settingText(v)))
		}
	}
	for i := range s.Points {
		cells := []any{i, s.Points[i].Hash[:shownHash]}
		for _, key := range varying {
			v := settingText(s.Points[i].Settings.Value(key))
			if v != nil {
				v = fmt.Sprint(v)
			}
			cells = append(cells, v)
		}
		points.Add(cells...)
	}
	var warned []string
	for _, w := range s.Warnings {
		warned = append(warned, strings.Split(w, "\n")...)
	}
	return &render.Document{Title: s.Name, Blocks: []render.Block{
		frame, common, points, render.Verbatim{Title: "Warnings", Lines: warned},
	}}
}
