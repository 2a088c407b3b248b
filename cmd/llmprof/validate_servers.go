package main

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"llmprof/cmd/llmprof/internal/view"
	"llmprof/serving"
	"llmprof/validate/served"
)

// validateServers is the command that scores simulations of real servers.
func (a *app) validateServers() *cobra.Command {
	o, gpu := &output{}, ""
	cmd := &cobra.Command{
		Use:   "servers",
		Short: "Compare simulations of servers under load with what was measured",
		Long: "Simulate the servers whose runs come with the program, request by request, and compare TTFT, TPOT,\n" +
			"E2E and throughput. No constant is fitted on them. The error is predicted over observed, less 1.",
		Example: "  llmprof validate servers\n  llmprof validate servers --gpu h200 -o servers.svg",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.runValidateServers(cmd.Context(), o, gpu) },
	}
	o.flags(cmd)
	cmd.Flags().Lookup("output").Usage = chartUsage + " of one GPU"
	cmd.Flags().StringVarP(&gpu, "gpu", "g", "", "only servers on this `GPU`, as h200")
	return cmd
}

func (a *app) runValidateServers(ctx context.Context, o *output, gpu string) error {
	if err := o.check(); err != nil {
		return err
	}
	runs, err := served.Runs()
	if err != nil {
		return err
	}
	v := &view.Servers{}
	for i := range runs {
		if gpu != "" && !strings.EqualFold(gpu, runs[i].GPU) {
			continue
		}
		s, err := a.serverOf(ctx, &runs[i])
		if err != nil {
			return err
		}
		scored, err := runs[i].Score(ctx, s)
		if err != nil {
			return err
		}
		v.All = append(v.All, scored)
	}
	if len(v.All) == 0 {
		return usage("--gpu %.40q: the runs are on h200, h100, rtx-4090 and rtx-pro-6000", gpu)
	}
	r := forms{page: v.Page, table: v.Table, data: func() any { return v.Document() }}
	kind := o.picture()
	if kind == "" {
		return o.write(a, r)
	}
	text := *o
	text.file = ""
	figure, err := v.Chart()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := figure.Write(&b, kind); err != nil {
		return err
	}
	return errors.Join(text.write(a, r), writeFile(o.file, b.Bytes()))
}

// serverOf is the server of a run as it is predicted.
func (a *app) serverOf(ctx context.Context, r *served.Run) (*serving.Server, error) {
	q := &question{model: r.Model, gpu: r.GPU, engine: "vllm", given: func(string) bool { return false }, output: output{format: "table", color: "auto"}}
	q.workload.Batch, q.workload.Prompt, q.workload.Gen = 1, 1024, 2
	q.parallel.TP, q.parallel.DP, q.parallel.EP, q.parallel.PP, q.parallel.MicroBatches = r.TP, r.DP, r.EP, 1, 1
	ans, err := a.answer(ctx, q)
	if err != nil {
		return nil, err
	}
	s, err := a.server(ctx, &service{}, ans)
	if err != nil {
		return nil, err
	}
	r.Apply(s)
	return s, s.Check()
}
