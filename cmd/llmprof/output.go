package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/internal/atomicfile"
	"llmprof/internal/input"
	"llmprof/internal/printable"
	"llmprof/measure/experiment"
	"llmprof/measure/result"
	"llmprof/plots"
	"llmprof/plots/render"
	"llmprof/plots/report"
)

// An output says in which form a result is written, and where to.
type output struct {
	format string
	file   string
	color  string
	binary bool
	gauges bool // Prometheus's text is a form of the result too
	report bool // llm-d's Benchmark Report is a form of the result too
	chart  bool // the result has a chart too
	sheet  bool // the result has a report of one sheet, as .html and .md
}

// forms is what a command found out, in the forms it can be written in.
type forms struct {
	page  func() *render.Document
	table func() *render.Table
	data  func() any
	chart func() (*plots.Figure, error) // nil where there is none

	report func() (any, error)                    // of llm-d; nil where there is none
	sheet  func(files bool) (*report.Page, error) // a report, with its picture in a file or not; nil where there is none
	poster func() (*plots.Figure, error)          // the chart with the answer below, for a PDF; nil where it is the chart
}

// flags defines the flags, which are checked before the command runs.
func (o *output) flags(cmd *cobra.Command) {
	cmd.PreRunE = func(*cobra.Command, []string) error { return o.check() }
	f := cmd.Flags()
	settings.Choice(f, &o.format, "format", "", "`form`: %s", o.forms()...)
	f.StringVarP(&o.file, "output", "o", "", "`FILE` of the result; its ending says the form")
	if o.chart {
		f.Lookup("output").Usage = "`FILE` of the result; .svg, .png, .pdf: of the chart"
	}
	if o.sheet {
		f.Lookup("output").Usage = "`FILE` of the result; .html, .md, .pdf: a report; .svg, .png: the chart"
	}
	settings.Choice(f, &o.color, "color", "auto", "`when` to colour a table: %s", "auto", "always", "never")
}

// forms are those in which the result can be written.
func (o *output) forms() []string {
	forms := []string{"table", "json", "csv", "markdown", "latex"}
	if o.gauges {
		forms = append(forms, "prometheus")
	}
	if o.report {
		forms = append(forms, "llm-d")
	}
	return forms
}

// endings are what the names of files end in, by form.
var endings = map[string]string{"": "table", "txt": "table", "json": "json", "csv": "csv", "md": "markdown", "tex": "latex",
	"prom": "prometheus"}

// resolve takes the form that the name of the file ends in where no form was given.
func (o *output) resolve() error {
	if o.format != "" {
		return nil
	}
	ending := ending(o.file)
	if o.sheet && slices.Contains([]string{"html", "md"}, ending) {
		o.format = asReport
		return nil
	}
	if o.format = endings[ending]; o.chart && slices.Contains(plots.Formats(), ending) {
		o.format = "table"
	}
	if slices.Contains(o.forms(), o.format) {
		return nil
	}
	known := ".txt, .json, .csv, .md, .tex"
	if o.chart {
		known += ", .svg, .png, .pdf"
	}
	if o.sheet {
		known += ", .html"
	}
	return usage("-o %.60q: want a name that ends in one of %s, or a --format", o.file, known)
}

// ending is what the name of a file ends in, without the dot.
func ending(file string) string { return strings.TrimPrefix(strings.ToLower(filepath.Ext(file)), ".") }

// picture is the form of the chart that is wanted; "" if none is.
func (o *output) picture() string {
	if kind := ending(o.file); slices.Contains(plots.Formats(), kind) {
		return kind
	}
	return ""
}

// check refuses what does not exist or does not go together.
func (o *output) check() error {
	if err := o.resolve(); err != nil {
		return err
	}
	if o.color == "always" && o.format != "table" {
		return usage("--color always: only a table has colours, not %s", o.format)
	}
	if o.binary && !slices.Contains([]string{"table", "markdown", "latex"}, o.format) {
		return usage("--binary: %s has bytes as plain numbers; GiB are for table, markdown and latex", o.format)
	}
	return writable(o.file)
}

// write writes the result. If -o names a picture, the chart goes to that file and the result to
// standard output.
func (o *output) write(a *app, r forms) error {
	kind := o.picture()
	switch {
	case o.format == asReport:
		return o.writeSheet(a, r)
	case kind == "":
		return o.writeText(a, r)
	case kind == "pdf" && r.poster != nil:
		r.chart = r.poster
	}
	text := *o
	text.file = ""
	err := text.writeText(a, r)
	if r.chart == nil {
		return err
	}
	f, failed := r.chart()
	if failed == nil {
		failed = writeFigure(f, o.file, kind)
	}
	return errors.Join(err, failed)
}

// asReport is the form of a report, which the name of its file alone asks for.
const asReport = "report"

// writeSheet writes the report of a result, if there is one.
func (o *output) writeSheet(a *app, r forms) error {
	if r.sheet == nil {
		return nil
	}
	page, err := r.sheet(ending(o.file) == "md")
	if err != nil {
		return err
	}
	if ending(o.file) == "md" {
		return writeMarkdown(o.file, page, render.Style{Width: pageWidth})
	}
	var b bytes.Buffer
	if err := page.HTML(&b, render.Style{Width: pageWidth}); err != nil {
		return err
	}
	return a.put("report", o.file, b.Bytes())
}

func writeList[T any](a *app, o *output, all []T, table func([]T) render.Table, document func(*T) any) error {
	t := table(all)
	return o.write(a, forms{
		page: func() *render.Document { return &render.Document{Blocks: []render.Block{t}} }, table: func() *render.Table { return &t },
		data: func() any {
			list := make([]any, len(all))
			for i := range all {
				list[i] = document(&all[i])
			}
			return list
		},
	})
}

// checkFiles writes what is found in each of some files, and fails where any is not as it should be.
func checkFiles[T any](a *app, o *output, files []string, failure string, check func(file string) (found T, ok bool),
	page func([]T) *render.Document, table func([]T) *render.Table) error {
	checks, failed := make([]T, len(files)), 0
	for i, file := range files {
		var ok bool
		if checks[i], ok = check(file); !ok {
			failed++
		}
	}
	err := o.write(a, forms{
		page: func() *render.Document { return page(checks) }, table: func() *render.Table { return table(checks) },
		data: func() any { return checks },
	})
	if err == nil && failed > 0 {
		err = fmt.Errorf(failure, failed, len(files))
	}
	return err
}

// writeText renders the whole result before the first byte goes out.
func (o *output) writeText(a *app, r forms) error {
	var b bytes.Buffer
	var err error
	out := a.stdout
	switch o.format {
	case "json":
		err = render.JSON(&b, r.data())
	case "csv":
		err = render.CSV(&b, r.table())
	case "llm-d":
		if r.report == nil {
			return usage("--format llm-d: a report is of one load of a server")
		}
		var report any
		if report, err = r.report(); err == nil {
			err = render.JSON(&b, report)
		}
	case "prometheus":
		err = render.Prometheus(&b, r.data())
	case "latex":
		err = render.Latex(&b, r.page(), o.style(a))
	case "markdown":
		err = render.Markdown(&b, r.page(), o.style(a))
	default:
		out = a.styled
		err = render.Text(&b, r.page(), o.style(a))
		if o.file == "" && a.ascii() {
			plain := printable.ASCII(b.String())
			b.Reset()
			b.WriteString(plain)
		}
	}
	if err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return a.putOn(out, "result", o.file, b.Bytes())
}

// put writes all of what is called so to a file, or to standard output where none or "-" is named. It is not lost where
// that fails.
func (a *app) put(what, file string, data []byte) error { return a.putOn(a.stdout, what, file, data) }

func (a *app) putOn(out io.Writer, what, file string, data []byte) error {
	if file != "" && file != "-" {
		if err := writeFile(file, data); err != nil {
			return fmt.Errorf("%w; %s", err, a.spare(filepath.Base(file), data))
		}
		return nil
	}
	if _, err := out.Write(data); err != nil {
		return fmt.Errorf("writing the %s: %w; %s", what, err, a.spare(what, data))
	}
	return nil
}

// spare keeps what could not be written where it should be: in the folder of temporary files, or else on standard error.
// It says where.
func (a *app) spare(name string, data []byte) string {
	dir, err := os.MkdirTemp("", "llmprof-")
	if err == nil {
		path := filepath.Join(dir, name)
		if err = writeFile(path, data); err == nil {
			return "it is in " + path
		}
		_ = os.Remove(dir)
	}
	if _, err := a.stderr.Write(data); err != nil {
		return "it is lost, for standard error takes nothing either"
	}
	return "it is above"
}

// rescue keeps the results that, as err says, could not be stored.
func (a *app) rescue(err error) {
	lost := (*experiment.UnstoredError)(nil)
	if !errors.As(err, &lost) {
		return
	}
	for _, r := range lost.Results {
		data, err := result.Encode(r)
		if err != nil {
			a.logf("the result %s is lost: %v", r.ID, err)
			continue
		}
		name := result.FileName(r.ID, r.Process)
		a.logf("the result %s was measured and could not be stored; %s", name, a.spare(name, data))
	}
}

// writable reports why the file of a result cannot be written, before the result is worked out.
func writable(file string) error {
	if file == "" || file == "-" {
		return nil
	}
	if err := atomicfile.Probe(file); err != nil {
		return fmt.Errorf("writing %s: %w", file, input.Cause(err))
	}
	return nil
}

// pageWidth is that of a table where there is no terminal to fit it to, leastPage the least of one where there is.
const (
	pageWidth = 100
	leastPage = 60
)

// style is how the result looks where it goes.
func (o *output) style(a *app) render.Style {
	s := render.Style{Width: pageWidth, Color: o.color == "always", Binary: o.binary}
	columns, _ := strconv.Atoi(a.env("COLUMNS")) // what is no number is as if it were not set
	if columns > 0 {
		s.Width = max(columns, leastPage)
	}
	out, ok := a.styled.(*standard)
	if !ok || o.file != "" || !onTerminal(out.to) {
		return s
	}
	file, _ := out.to.(*os.File)
	if n, _, err := term.GetSize(int(file.Fd())); err == nil && n > 0 && columns <= 0 {
		s.Width = max(n, leastPage)
	}
	if o.color == "auto" {
		s.Color = a.env("NO_COLOR") == "" && a.env("TERM") != "dumb"
	}
	return s
}

// writeFile replaces a file in one step, so that a reader finds the old content
// or the new, and never a part.
func writeFile(path string, data []byte) error {
	f, err := atomicfile.Replace(path, 0o666)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, input.Cause(err))
	}
	if _, err := f.Write(data); err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", path, input.Cause(err)), f.Drop())
	}
	return f.Keep()
}

// writeFigure writes a picture to a file, whole or not at all.
func writeFigure(f *plots.Figure, file, kind string) error {
	var b bytes.Buffer
	if err := f.Write(&b, kind); err != nil {
		return err
	}
	return writeFile(file, b.Bytes())
}
