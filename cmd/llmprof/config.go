package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/measure/experiment"
	"llmprof/measure/experiment/tree"
)

func (a *app) configValidate() *cobra.Command {
	o := &output{}
	cmd := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Say all that is wrong with experiment files",
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
			return checkFiles(a, o, args, "%d of %d experiments have mistakes", check, experimentsPage, mistakeTable)
		},
	}
	o.flags(cmd)
	return cmd
}

// An experimentCheck is what was found in one file.
type experimentCheck struct {
	File     string        `json:"file"`
	OK       bool          `json:"ok"`
	Name     *string       `json:"name"`
	Points   *int          `json:"points"`
	Runs     *int          `json:"runs"`
	Mistakes []mistakeJSON `json:"mistakes"`
	Warnings []string      `json:"warnings"`

	text []string // the mistakes with their lines, for people
}

// A mistakeJSON is one mistake; line and column are null where they are not known.
type mistakeJSON struct {
	File    string `json:"file"`
	Line    *int   `json:"line"`
	Column  *int   `json:"column"`
	Problem string `json:"problem"`
}

func checkExperiment(file string, check func(*experiment.Point) []experiment.Problem) experimentCheck {
	c := experimentCheck{File: file, Mistakes: []mistakeJSON{}, Warnings: []string{}}
	e, err := experiment.Load(file, check)
	if err != nil {
		c.text = strings.Split(err.Error(), "\n")
		var mistakes tree.Mistakes
		if !errors.As(err, &mistakes) {
			mistakes = tree.Mistakes{{File: file, Problem: err.Error()}}
		}
		for _, m := range mistakes {
			c.Mistakes = append(c.Mistakes, mistakeJSON{m.File, view.OrNull(m.Line), view.OrNull(m.Column), m.Problem})
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

// mistakeTable is a mistake a row, and a row for each file without one.
func mistakeTable(checks []experimentCheck) *render.Table {
	t := render.Keyed("file", "ok", "points", "runs", "mistake_file", "line", "column", "problem")
	for i := range checks {
		c := &checks[i]
		if c.OK {
			t.Add(c.File, "yes", *c.Points, *c.Runs, nil, nil, nil, nil)
		}
		for _, m := range c.Mistakes {
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
	for i := range checks {
		c := &checks[i]
		ok := render.Painted{Value: "yes", Color: render.Good}
		if !c.OK {
			ok = render.Painted{Value: "no", Color: render.Bad}
		}
		t.Add(c.File, ok, view.Cell(c.Points), view.Cell(c.Runs), len(c.Mistakes), len(c.Warnings))
		wrong = append(wrong, c.text...)
		for _, w := range c.Warnings {
			warned = append(warned, strings.Split(w, "\n")...)
		}
	}
	return &render.Document{Blocks: []render.Block{
		t, render.Verbatim{Title: "Mistakes", Lines: wrong}, render.Verbatim{Title: "Warnings", Lines: warned},
	}}
}
