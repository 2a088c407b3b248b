package main

import (
	"bytes"
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/plots"
	"llmprof/spelling"
)

func (a *app) graph() *cobra.Command {
	d := &drawing{}
	var phase string
	cmd := &cobra.Command{
		Use:   "graph MODEL GPU -o FILE",
		Short: "Draw the model as a graph, every operator with its cost",
		Long: "Draw one layer of each kind with its repeat count, what comes before and after the layers, and\n" +
			"of every operator its shape, and its share of time, FLOPs, bytes, intensity and bound in prefill\n" +
			"and decode. The experts of a mixture are one node, and a strip shows how kinds of layers\n" +
			"alternate. As SVG, PNG (200 dots an inch) or PDF, or as DOT, the language of Graphviz.",
		Example: "  llmprof graph llama2-70b a100 --tp 8 -o graph.svg\n" +
			"  llmprof graph deepseek-v3 h200 --tp 8 --batch 32 -o graph.dot\n" +
			"  llmprof graph nemotron-h-8b h100 --phase decode -o decode.png",
		Args:              cli.Positional("model", "gpu"),
		ValidArgsFunction: completeModelThenGPU,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d.Given = cmd.Flags().Changed
			return a.runGraph(cmd.Context(), d, phase)
		},
	}
	d.flags(cmd)
	cli.Define(cmd, cli.Output, func(cmd *cobra.Command) { d.graphFlags(cmd, &phase) })
	return cmd
}

func (d *drawing) graphFlags(cmd *cobra.Command, phase *string) {
	f := cmd.Flags()
	f.StringVarP(&d.file, "output", "o", "", "write the graph to `FILE`, whole or not at all; - for standard output")
	f.StringVar(&d.kind, "format", "", "`form` of the graph: svg, png, pdf or dot (default: what FILE ends in)")
	_ = cmd.RegisterFlagCompletionFunc("format", words(append(plots.Formats(), "dot")...))
	f.StringVar(phase, "phase", "both", "`phase` to show: both, prefill or decode")
	_ = cmd.RegisterFlagCompletionFunc("phase", words(plots.PhaseNames()...))
}

// runGraph draws the whole graph before the first byte is written.
func (a *app) runGraph(ctx context.Context, d *drawing, phase string) error {
	kind := cmp.Or(strings.ToLower(d.kind), ending(d.file))
	if kind != "dot" || d.file == "" {
		var err error
		if kind, err = d.form(); err != nil {
			return usage("%w; a graph can be dot too", err)
		}
	}
	phases, err := plots.ParsePhases(phase)
	if err != nil {
		return usage("--phase %.40q: %s", phase, spelling.Hint(phase, plots.PhaseNames()))
	}
	if err := d.check(); err != nil {
		return err
	}
	ans, err := a.answer(ctx, &d.question)
	if err != nil {
		return err
	}
	a.warn(ans)
	text, err := graphOf(ans, kind, phases)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err // interrupted while drawing: the old file stays
	}
	return a.put("graph", d.file, text)
}

// graphOf is the graph in one of its forms.
func graphOf(ans *answer, kind string, phases plots.Phases) ([]byte, error) {
	if kind == "dot" {
		text, err := plots.GraphDOT(&ans.Case, &ans.Report, phases)
		return []byte(text), err
	}
	f, err := plots.Graph(&ans.Case, &ans.Report, phases)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = f.Write(&b, kind)
	return b.Bytes(), err
}
