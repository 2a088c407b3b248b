package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/internal/input"
	"llmprof/internal/printable"
	"llmprof/measure/result"
	"llmprof/plots"
	"llmprof/plots/render"
	"llmprof/plots/report"
	"llmprof/validate"
)

// A paper is a report with the flags that ask for it.
type paper struct {
	estimateFlags
	file    string
	form    string // "html" or "md"; "" for what the file's name ends in
	results []string
	command string // command line that makes the report again
}

func (a *app) report() *cobra.Command {
	p := &paper{}
	cmd := &cobra.Command{
		Use:   "report MODEL GPU -o FILE",
		Short: "Make one page of everything: tables, pictures, sources",
		Long: "Make one page of an estimate: headline figures, with --rate or --concurrency those under a\n" +
			"load, every operator, all pictures, memory,\n" +
			"assumptions, sources, warnings and the command that makes it again. As HTML it is one file that\n" +
			"fetches nothing; as Markdown its pictures (PNG) and the graph (DOT) lie in a folder beside it.\n" +
			"Stored results become sections of the page, and measured ones are compared with their predictions.",
		Example: "  llmprof report llama2-70b a100 --tp 8 --batch 32 -o report.html\n" +
			"  llmprof report llama3.1-8b h200 -o report.md",
		Args:              cli.Positional("model", "gpu"),
		ValidArgsFunction: completeModelThenGPU,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.command = commandLine(cmd)
			return a.runReport(cmd.Context(), p)
		},
	}
	p.flags(cmd)
	p.loads(cmd)
	cli.Define(cmd, cli.Output, p.outputFlags)
	cli.Rare(cmd, "binary")
	return cmd
}

func (p *paper) outputFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&p.results, "results", nil, "stored `FILES` of measurements or estimates to set beside it")
	f.BoolVar(&p.output.binary, "binary", false, "memory in GiB (2^30) rather than GB (10^9)")
	f.StringVarP(&p.file, "output", "o", "", "write the page to `FILE`, whole or not at all; - for standard output")
	settings.Choice(f, &p.form, "format", "", "`form` of the page: %s (default: what FILE ends in)", "html", "md", "markdown")
}

// commandLine is the command with the flags that were given, quoted for a shell.
// It has the name alone of the file that is written, since a path can identify a person.
func commandLine(cmd *cobra.Command, args ...string) string {
	parts := []string{cmd.CommandPath()}
	for _, arg := range args {
		parts = append(parts, printable.ShellWord(arg))
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		switch {
		case f.Name == "output":
			parts = append(parts, "-o", printable.ShellWord(filepath.Base(value)))
		case f.Value.Type() == "bool" && value == "true":
			parts = append(parts, "--"+f.Name)
		case f.Value.Type() == "bool":
			parts = append(parts, "--"+f.Name+"="+value)
		default:
			parts = append(parts, "--"+f.Name, printable.ShellWord(strings.Trim(value, "[]")))
		}
	})
	return strings.Join(parts, " ")
}

func (p *paper) kind() (string, error) {
	kind := p.form
	switch {
	case p.file == "":
		return "", usage("which file? Give -o, as in -o report.html")
	case kind == "" && p.file == "-":
		kind = "html"
	case kind == "":
		kind = ending(p.file)
	}
	switch kind {
	case "html", "htm":
		return "html", nil
	case "md", "markdown":
		if p.file == "-" {
			return "", usage("-o -: the pictures of Markdown lie in files beside it; give the name of a file")
		}
		return "md", nil
	}
	return "", usage("-o %.40q: want a name that ends in .html or .md, or --format with one of them", p.file)
}

func (a *app) runReport(ctx context.Context, p *paper) error {
	if p.GPU == "" {
		if _, err := readStored(p.Model); err == nil {
			return usage("%s is a stored result: set it beside an estimate, as in llmprof report llama3.1-8b h200 --results %[1]s -o report.html",
				printable.ShellWord(printable.Operand(p.Model)))
		}
	}
	kind, err := p.kind()
	if err != nil {
		return err
	}
	if err := errors.Join(p.check(), writable(p.file)); err != nil {
		return err
	}
	ans, err := a.answer(ctx, &p.estimateFlags)
	if err != nil {
		return err
	}
	results := make([]stored, len(p.results))
	for i, file := range p.results {
		if results[i], err = readStored(file); err != nil {
			return fmt.Errorf("--results %w", err)
		}
	}
	observed, err := a.observed(p, ans, results)
	if err != nil {
		return err
	}
	page, err := a.reportPage(p, ans, results, observed, kind == "md")
	if err != nil {
		return err
	}
	style := render.Style{Width: pageWidth, Binary: p.output.binary}
	if kind == "md" {
		return writeMarkdown(p.file, page, style)
	}
	var b bytes.Buffer
	if err := page.HTML(&b, style); err != nil {
		return err
	}
	return a.put("report", p.file, b.Bytes())
}

// writeMarkdown writes the page, and its pictures into the folder NAME_files
// beside it. The page is written last, so that it never lacks a picture.
func writeMarkdown(file string, page *report.Page, style render.Style) error {
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		return fmt.Errorf("writing %s: it is a directory; give the name of a file in it", file)
	}
	folder := strings.TrimSuffix(file, filepath.Ext(file)) + "_files"
	text, pictures, err := page.Markdown(filepath.Base(folder), style)
	if err != nil {
		return err
	}
	if err := os.Mkdir(folder, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("making the folder %s: %w", folder, input.Cause(err))
	}
	for name, data := range pictures {
		if err := writeFile(filepath.Join(folder, name), data); err != nil {
			return err
		}
	}
	return writeFile(file, text)
}

func (a *app) reportPage(p *paper, ans *answer, results []stored, observed *view.Validation, files bool) (*report.Page, error) {
	var beside []report.Section
	if observed != nil {
		s, err := observed.Section(files)
		if err != nil {
			return nil, err
		}
		beside = append(beside, s)
	}
	for i, r := range results {
		section := r.section(i, ans)
		if err := a.addOperators(&section, &r, ans, files); err != nil {
			return nil, err
		}
		beside = append(beside, section)
	}
	page, err := ans.ReportPage(beside, files)
	if err != nil {
		return nil, err
	}
	page.Command, page.Version = p.command, versionText()
	return page, nil
}

// A stored is a result file that becomes a section of the report: of a
// measurement or of another estimate.
type stored struct {
	file     string
	origin   string // source of its observations, if they come with the program
	measured *result.Result
	estimate *view.EstimateDocument
}

// readStored reads a file of a result or of an estimate.
func readStored(file string) (stored, error) {
	s := stored{file: file}
	data, err := input.Read(file, result.MaxBytes)
	if err != nil {
		return s, fmt.Errorf("%s: %w", file, input.Cause(err))
	}
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return s, fmt.Errorf("%s: not a JSON object, so no estimate and no result: %w", file, err)
	}
	switch head.Schema {
	case result.Schema:
		if s.measured, err = result.Decode(file, data); err == nil {
			s.origin, err = validate.Origin(data)
		}
	case view.EstimateSchema:
		if err = json.Unmarshal(data, &s.estimate); err != nil {
			err = fmt.Errorf("%s: %w", file, err)
		}
	default:
		err = fmt.Errorf("%s: schema %.80q: want %s or %s, of \"llmprof measure\" or \"llmprof estimate --format json\"", file, head.Schema,
			result.Schema, view.EstimateSchema)
	}
	return s, err
}

// section is the result beside the estimate of the page.
func (s *stored) section(i int, ans *answer) report.Section {
	id := fmt.Sprintf("result-%d", i+1)
	if s.estimate != nil {
		return ans.BesideEstimate(id, s.estimate)
	}
	return ans.BesideMeasured(id, s.measured, view.ProcessBlocks(s.measured))
}

// addOperators adds the picture and the tables of the operators that were measured to a section.
func (a *app) addOperators(section *report.Section, s *stored, ans *answer, files bool) error {
	if s.measured == nil || s.measured.Operators == nil {
		return nil
	}
	scorer, err := a.scorer(ans.Request.Hardware, ans.Request.Calibration)
	if err != nil {
		return err
	}
	phases := scorer.Operators(s.measured)
	if len(phases) == 0 {
		return nil
	}
	picture, err := view.Picture(section.ID+"-operators", func() (*plots.Figure, error) {
		return view.OperatorFigure(scorer, phases, plots.Replayed)
	}, files)
	if err != nil {
		return fmt.Errorf("--results %s: %w", s.file, err)
	}
	section.Parts = append(section.Parts, report.Part{Picture: picture})
	for _, b := range view.OperatorBlocks(scorer, []*result.Result{s.measured}) {
		_, table := b.(render.Table)
		section.Parts = append(section.Parts, report.Part{Block: b, Sortable: table})
	}
	return nil
}

// observed compares each measured result with the prediction of what it was
// measured on, as "llmprof validate" does. It is nil without such results.
func (a *app) observed(p *paper, ans *answer, results []stored) (*view.Validation, error) {
	v := &view.Validation{}
	var all []validate.Observation
	refused := map[string]error{}
	for _, r := range results {
		if r.measured == nil {
			continue
		}
		name := filepath.Base(r.file)
		v.Files = append(v.Files, name)
		some, err := validate.Reduce(cmp.Or(r.origin, name), r.measured)
		if err == nil && len(some) == 0 {
			err = errors.New("it holds no time and no energy")
		}
		if err != nil {
			refused[name] = err
		}
		all = append(all, some...)
	}
	if len(v.Files) == 0 {
		return nil, nil //nolint:nilnil // there is nothing to compare, which is no error
	}
	scorer, err := a.scorer(p.Hardware, p.Calibration)
	if err != nil {
		return nil, err
	}
	scorer.Know(ans.Model) // the table has none of a directory or of the hub
	v.Scorer, v.Observations, v.Score = scorer, len(all), scorer.Score(all)
	v.By = differing(v.Score.Rows, validate.ByEngine, validate.ByGPU, validate.ByTP, validate.ByModel)
	for _, name := range v.Files {
		if err := refused[name]; err != nil {
			v.Score.Refuse(name, err)
		}
	}
	return v, nil
}

// differing are the dimensions that rows are not all alike in.
func differing(rows []validate.Row, dims ...validate.Dimension) (some []validate.Dimension) {
	for _, d := range dims {
		if groups := validate.Summarize(rows, d); len(groups) > len(validate.Summarize(rows)) {
			some = append(some, d)
		}
	}
	return some
}
