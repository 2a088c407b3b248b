package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"llmprof"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/plots"
	compare "llmprof/validate"
)

// A validation is a comparison as it was asked for on the command line.
type validation struct {
	files    []string
	by       []string
	model    string
	gpu      string
	engine   string
	worst    int
	failOver float64
	chart    string
	output   output
	given    func(flag string) bool

	scorer  *compare.Scorer
	dims    []compare.Dimension
	score   *compare.Score
	timed   []timedResult // of the files, those that hold operators
	sources []compare.Source
	total   int // observations, those not scored included
}

// validate is the command that holds predictions against observations.
func (a *app) validate() *cobra.Command {
	v := &validation{}
	cmd := &cobra.Command{
		Use:   "validate [FILE...]",
		Short: "Compare predictions with observations",
		Long: "Compare predictions with observations: those that come with the program, or else those of the\n" +
			"given result files, folders of them, or files of \"llmprof validate reduce\". No GPU is needed.\n\n" +
			"The error is predicted over observed, less 1. Of each group it prints the bias (the mean of the\n" +
			"error), the median, mean and 90th percentile of its absolute value, the share of observations\n" +
			"inside of the predicted 90 % interval, and the noise: half the width of the observations' own\n" +
			"95 % interval. Observations that a constant was fitted on are scored apart. What cannot be\n" +
			"compared is counted by reason. Results of \"llmprof measure --ops\" have a table of operators too.\n\n" +
			"--by takes engine, gpu, tp, model, batch and source. A chart is a scatter of all, follows one model\n" +
			"over prompt and batch, or shows the operators (ops) of one result.",
		Example: "  llmprof validate\n" +
			"  llmprof validate results --by model,batch\n" +
			"  llmprof validate --engine vllm --fail-over 25\n" +
			"  llmprof validate -o chart.svg\n" +
			"  llmprof validate --chart follow --model llama3.1-8b --gpu h200 -o follow.svg\n" +
			"  llmprof validate --chart ops timed -o operators.svg",
		RunE: func(cmd *cobra.Command, args []string) error {
			v.files, v.given = args, cmd.Flags().Changed
			return a.runValidate(v)
		},
	}
	v.output.flags(cmd)
	f := cmd.Flags()
	f.Lookup("output").Usage = "write the result to `FILE`; a name in .svg, .png or .pdf gets the chart"
	f.StringSliceVar(&v.by, "by", []string{"engine", "gpu", "tp"}, "`keys` that tell groups apart")
	f.StringVar(&v.model, "model", "", "only observations of this `model`")
	f.StringVar(&v.gpu, "gpu", "", "only observations on this `GPU`")
	f.StringVar(&v.engine, "engine", "", "only observations by this `engine`, as \"transformers graph\"")
	f.IntVar(&v.worst, "worst", 10, "show the `N` observations that are farthest off")
	f.Float64Var(&v.failOver, "fail-over", 0, "fail where an unfitted group's median error is over this many `percent`")
	f.StringVar(&v.chart, "chart", "scatter", "`kind` of chart: scatter, follow or ops")
	_ = cmd.RegisterFlagCompletionFunc("by", words("engine", "gpu", "tp", "model", "batch", "source"))
	_ = cmd.RegisterFlagCompletionFunc("chart", words("scatter", "follow", "ops"))
	_ = cmd.RegisterFlagCompletionFunc("model", completeModels)
	_ = cmd.RegisterFlagCompletionFunc("gpu", completeGPUs)
	f.SortFlags = false
	cmd.AddCommand(a.validateReduce())
	return cmd
}

// check refuses command lines that cannot be meant.
func (v *validation) check() error {
	if err := v.output.check(); err != nil {
		return err
	}
	for _, name := range v.by {
		d, err := compare.ParseDimension(name)
		if err != nil {
			return usage("--by: %w", err)
		}
		v.dims = append(v.dims, d)
	}
	switch {
	case v.worst < 0:
		return usage("--worst %d: want a number of observations, or 0 for none", v.worst)
	case v.given("fail-over") && !(v.failOver > 0 && v.failOver < 1e6):
		return usage("--fail-over %v: want percent, above 0", v.failOver)
	case v.chart != "scatter" && v.chart != "follow" && v.chart != "ops":
		return usage("--chart %.40q: want scatter, follow or ops", v.chart)
	case v.given("chart") && v.picture() == "":
		return usage("--chart %s: give -o too, with a name that ends in .svg, .png or .pdf", v.chart)
	}
	return nil
}

// picture is the form of the chart that is wanted; "" if none is.
func (v *validation) picture() string {
	kind := strings.TrimPrefix(strings.ToLower(filepath.Ext(v.output.file)), ".")
	if slices.Contains(plots.Formats(), kind) {
		return kind
	}
	return ""
}

func (a *app) runValidate(v *validation) error {
	if err := v.check(); err != nil {
		return err
	}
	scorer, err := a.scorer()
	if err != nil {
		return err
	}
	v.scorer = scorer
	all, refused, err := v.observations()
	if err != nil {
		return err
	}
	all, err = v.only(scorer, all)
	if err != nil {
		return err
	}
	v.total = len(all)
	v.score = scorer.Score(all)
	for _, e := range refused {
		v.score.Refuse(e.path, e.err)
	}
	if v.timed, err = v.operators(); err != nil {
		return err
	}
	if v.sources, err = compare.Sources(); err != nil {
		return err
	}
	forms := v.output
	if kind := v.picture(); kind != "" {
		if err := v.draw(kind); err != nil {
			return err
		}
		forms.file = ""
	}
	if err := forms.write(a, v.result()); err != nil {
		return err
	}
	return errors.Join(v.verdict(), unread(refused))
}

// scorer finds models and GPUs in the tables.
func (a *app) scorer() (*compare.Scorer, error) {
	table, err := models.Load(llmprof.ModelsJSON)
	if err != nil {
		return nil, err
	}
	gpus, err := hardware.Load(llmprof.HardwareTOML)
	if err != nil {
		return nil, err
	}
	return &compare.Scorer{
		Model: table.Model,
		GPU:   func(name string) (*hardware.GPU, error) { g, err := gpus.GPU(name); return &g, err },
	}, nil
}

// only keeps the observations that the flags ask for.
func (v *validation) only(s *compare.Scorer, all []compare.Observation) ([]compare.Observation, error) {
	model, gpu := v.model, v.gpu
	if model != "" {
		m, err := s.Model(model)
		if err != nil {
			return nil, usageError{err}
		}
		model = m.Name
	}
	if gpu != "" {
		g, err := s.GPU(gpu)
		if err != nil {
			return nil, usageError{err}
		}
		gpu = g.Key
	}
	kept := slices.DeleteFunc(all, func(o compare.Observation) bool {
		c := s.Canonical(o.Config)
		return model != "" && c.Model != model || gpu != "" && c.GPU != gpu ||
			v.engine != "" && !strings.EqualFold(o.Engine, v.engine) && !strings.EqualFold(o.Runs(), v.engine)
	})
	if len(kept) == 0 && (model != "" || gpu != "" || v.engine != "") {
		return nil, usage("no observation is of --model %q, --gpu %q, --engine %q", v.model, v.gpu, v.engine)
	}
	return kept, nil
}

// verdict is an error where a group is off by more than --fail-over, or where
// nothing could be compared.
func (v *validation) verdict() error {
	if len(v.score.Rows) == 0 && len(v.timed) == 0 {
		return fmt.Errorf("none of %d observations could be compared", v.total)
	}
	if v.failOver == 0 {
		return nil
	}
	var wrong []error
	for _, s := range compare.Over(compare.Summarize(v.score.Rows, v.dims...), v.failOver/100) {
		wrong = append(wrong, fmt.Errorf("%s: the median error is %.1f %%, over %g %%", s.String(), 100*s.MedianAPE, v.failOver))
	}
	return errors.Join(wrong...)
}
