package main

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/deployment"
	"llmprof/measure/result"
	"llmprof/serving"
	"llmprof/validate/reports"
	"llmprof/validate/served"
)

// A serversFlags says which servers are simulated, and by which constants.
type serversFlags struct {
	output
	gpu         string
	engine      string // what served the runs of files; "" for what they say
	calibration string // a file; "" for what is built in
}

// validateServers is the command that scores simulations of real servers.
func (a *app) validateServers() *cobra.Command {
	o := &serversFlags{}
	cmd := &cobra.Command{
		Use:   "servers [FILE...]",
		Short: "Compare simulations of servers under load with what was measured",
		Long: "Simulate the servers whose runs come with the program, request by request, and compare TTFT, TPOT,\n" +
			"E2E and throughput. No constant is fitted on them. The error is predicted over observed, less 1.\n" +
			"With files, the runs of llmprof measure --engine openai in them: requests come when they came,\n" +
			"with the tokens that they had. --gpu says what the server ran on, and --engine what it was where the\n" +
			"server did not say it, as an option that it was started with.",
		Example: "  llmprof validate servers\n  llmprof validate servers --gpu h200 -o servers.svg",
		RunE: func(cmd *cobra.Command, files []string) error {
			return a.runValidateServers(cmd.Context(), o, files)
		},
	}
	o.chart = true
	o.flags(cmd)
	cmd.Flags().Lookup("output").Usage += " of one GPU"
	cmd.Flags().StringVarP(&o.gpu, "gpu", "g", "", "only servers on this `GPU`, as h200; of files, what the server ran on")
	cmd.Flags().StringVar(&o.engine, "engine", "", "`engine` that served the runs of files, with its release and options")
	settings.CalibrationFlag(cmd.Flags(), &o.calibration)
	return cmd
}

func (a *app) runValidateServers(ctx context.Context, o *serversFlags, files []string) error {
	runs, err := o.runs(files)
	if err != nil {
		return err
	}
	part, end := a.follow().counted("simulating servers")
	defer end()
	v := &view.Servers{}
	for i := range runs {
		part(i, len(runs))
		s, err := a.serverOf(ctx, &runs[i], o.calibration)
		if err != nil {
			return err
		}
		scored, err := runs[i].Score(ctx, s)
		if err != nil {
			return err
		}
		v.All = append(v.All, scored)
	}
	end()
	return o.write(a, forms{page: v.Page, table: v.Table, data: func() any { return v.Document() }, chart: v.Chart})
}

// runs are those that come with the program, or those of files.
func (o *serversFlags) runs(files []string) ([]served.Run, error) {
	switch {
	case len(files) > 0:
	case o.engine != "":
		return nil, usage("--engine %.40q says what served the runs of files: name one", o.engine)
	default:
		runs, err := served.Runs()
		runs = slices.DeleteFunc(runs, func(r served.Run) bool { return o.gpu != "" && !strings.EqualFold(o.gpu, r.GPU) })
		if err == nil && len(runs) == 0 {
			err = usage("--gpu %.40q: the runs are on h200, h100, rtx-4090 and rtx-pro-6000-server", o.gpu)
		}
		return runs, err
	}
	if o.gpu == "" {
		return nil, usage("which GPU did the server run on? Give --gpu, as in --gpu h100")
	}
	files, err := reports.Expand(files)
	if err != nil {
		return nil, err
	}
	runs := make([]served.Run, 0, len(files))
	names := runNames(files)
	for i, file := range files {
		d, err := result.Read(file)
		if err != nil {
			return nil, err
		}
		r, err := served.FromResult(names[i], d, o.gpu)
		if err != nil {
			return nil, err
		}
		r.Engine = cmp.Or(o.engine, r.Engine)
		runs = append(runs, *r)
	}
	return runs, nil
}

// runNames are the names of files without their extension, with their folders where two are alike.
func runNames(files []string) []string {
	names, times := make([]string, len(files)), map[string]int{}
	for i, file := range files {
		names[i], _ = result.Base(filepath.Base(file))
		times[names[i]]++
	}
	for i, file := range files {
		if times[names[i]] > 1 {
			path, _ := result.Base(file)
			names[i] = filepath.ToSlash(path)
		}
	}
	return names
}

// serverOf is the server of a run as it is predicted by the constants of a calibration.
func (a *app) serverOf(ctx context.Context, r *served.Run, calibration string) (*serving.Server, error) {
	stages := max(r.PP, 1)
	d, err := a.library().Serve(ctx, &deployment.Request{
		Model: r.Model, GPU: r.GPU, Engine: r.Engine, Weights: r.Weights, Calibration: calibration, NoP2P: r.NoP2P, TP: &r.TP, DP: &r.DP,
		EP: above(r.EP), MoETP: above(r.MoETP), PP: &stages, MicroBatches: &stages,
	})
	if err != nil {
		return nil, err
	}
	s, err := d.Server(ctx)
	if err != nil {
		return nil, err
	}
	r.Apply(s)
	return s, s.Check()
}

// above is a number of ranks, nil for none.
func above(n int) *int {
	if n < 1 {
		return nil
	}
	return &n
}
