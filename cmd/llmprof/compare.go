package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"llmprof/analytic/engine"
	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/deployment"
	record "llmprof/measure/result"
	"llmprof/models"
	"llmprof/unit"
)

func (a *app) compare() *cobra.Command {
	q := &estimateFlags{}
	var top int
	var failOver string
	cmd := &cobra.Command{
		Use:   "compare [MODEL] DEPLOYMENT DEPLOYMENT...",
		Short: "Set deployments side by side",
		Long: "Compare deployments with the first of them: headline figures with their ratio, whether the 90 %\n" +
			"intervals overlap, and which operators make the difference.\n\n" +
			"A deployment is a GPU with what differs from the flags, as \"h100 tp2 fp8 b48\": tpN, ppN, epN,\n" +
			"dpN, bN (batch), inN and outN (tokens), a scheme of the weights, an engine, or any flag as\n" +
			"flag=value, as rate=4. It may also be a file: an estimate (llmprof estimate --format json) or a result of\n" +
			"llmprof measure, so that predicted stands against measured.\n\n" +
			"With --fail-over they are results of processes before and after: two folders or files, or several\n" +
			"with -- between them. It fails where one rose by more, and by more than processes differ.",
		Example: "  llmprof compare --model qwen3-32b \"h100 tp2 fp8 b48\" \"h200 tp1 fp8 b24\"\n" +
			"  llmprof compare -m llama3.1-8b --rate 8 l40s \"h100 fp8\"\n" +
			"  llmprof compare -m llama3.1-8b \"h200 native in1024 out512\" results/one.json\n" +
			"  llmprof compare --fail-over 5% results/0.25 results/0.26",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if failOver == "" {
				return a.runCompare(cmd, q, args, top)
			}
			sides, err := split(args, cmd.ArgsLenAtDash())
			if err != nil {
				return err
			}
			return a.runRepeated(cmd.Context(), q, sides, failOver, top, cmd.Flags().Changed)
		},
	}
	q.flags(cmd)
	q.loads(cmd)
	cli.Define(cmd, cli.Output, func(f *pflag.FlagSet) {
		q.output.flags(cmd)
		f.StringVar(&failOver, "fail-over", "", "compare results of processes, and fail where one rose by more than this `percent`")
		f.IntVar(&top, "top", 5, "show the `N` operators of each phase that differ most; 0 for all")
	})
	cli.Rare(cmd, "color", "fit")
	return cmd
}

func (a *app) runCompare(cmd *cobra.Command, base *estimateFlags, args []string, top int) error {
	model := !cmd.Flags().Changed("model") && len(args) > 0 && deployment.BuiltInModels().Has(args[0]) // the first argument is one
	if len(args) < 2 || model && len(args) == 2 {
		return usage("want two deployments or more, as in llmprof compare --model qwen3-32b \"h100 tp2 fp8\" \"h200 tp1 fp8\"")
	}
	if model {
		if err := cmd.Flags().Set("model", args[0]); err != nil {
			return err
		}
		args = args[1:]
	}
	if top < 0 {
		return usage("--top %d: want a number of operators, or 0 for all", top)
	}
	c := &view.Comparison{Top: top}
	var refused error // why the first of those sides cannot answer its load that cannot
	for _, text := range args {
		side, unanswered, err := a.side(cmd.Context(), base, text)
		if err != nil {
			return err
		}
		if refused == nil {
			refused = unanswered
		}
		c.Sides = append(c.Sides, side)
	}
	if refused != nil && !c.Loaded() {
		return refused
	}
	return base.output.write(a, forms{page: c.Page, table: c.Table, data: func() any { return c.Document() }})
}

// side is a deployment of a comparison: a file, or a description. One that cannot answer its load has its figures without it, and why.
func (a *app) side(ctx context.Context, base *estimateFlags, text string) (s view.Side, unanswered, err error) {
	if info, err := os.Stat(text); err == nil && info.Mode().IsRegular() {
		s, err = fileSide(text)
		return s, nil, err
	}
	if _, file := record.Base(text); file {
		return s, nil, fmt.Errorf("%s: no such file", text)
	}
	q := &estimateFlags{Request: base.Request}
	said := map[string]bool{}
	for i, word := range strings.Fields(text) {
		if _, err := a.library().GPU(word, ""); err == nil && i == 0 { // b200 is a GPU, and no batch
			word = "gpu=" + word
		}
		name, err := describe(&q.Request, word)
		if err != nil {
			return s, nil, usage("%q: %w", text, err)
		}
		if said[name] {
			return s, nil, usage("%q: %q gives --%s again", text, word, name)
		}
		said[name] = true
	}
	if err := q.check(); err != nil {
		return s, nil, fmt.Errorf("%q: %w", text, err)
	}
	ans, err := a.answer(ctx, q)
	if err == nil {
		return view.PredictedSide(text, ans), nil, nil
	}
	err = fmt.Errorf("%q: %w", text, err)
	if q.Loaded() {
		q.Rate, q.Concurrency, q.Prompts, q.Answers = nil, nil, nil, nil
		if ans, without := a.answer(ctx, q); without == nil {
			s = view.PredictedSide(text, ans)
			s.Warnings = append(s.Warnings, errors.Unwrap(err).Error())
			return s, err, nil
		}
	}
	return s, nil, err
}

// numbered matches a word that is a flag and its number.
var numbered = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(tp|pp|ep|dp|b|batch|in|out)=?([0-9].*)$`) })

// describe sets what a word of a description stands for.
func describe(q *deployment.Request, word string) (flag string, err error) {
	names := map[string]string{"b": "batch", "in": "prompt-len", "out": "gen-len"}
	value := word
	if m := numbered().FindStringSubmatch(strings.ToLower(word)); m != nil {
		if flag, value = m[1], m[2]; names[flag] != "" {
			flag = names[flag]
		}
	} else if name, v, ok := strings.Cut(strings.TrimLeft(word, "-"), "="); ok {
		flag, value = name, v
	} else if models.CheckWeights(word) == nil {
		flag = "weights"
	} else if _, err := unit.ParseFormat(word); err == nil {
		flag = "weights"
	} else if _, err := engine.Parse(word); err == nil {
		flag = "engine"
	} else {
		flag = "gpu"
		if q.GPU != "" {
			return "", fmt.Errorf("%q is the second GPU, or no word of a deployment: want a GPU, tp2, pp2, ep8, dp2, b48, in1024, out128, a "+
				"scheme, an engine, or flag=value", word)
		}
	}
	known, err := settings.Set(q, flag, value)
	switch {
	case !known:
		return "", fmt.Errorf("%q: a deployment has no flag --%s", word, flag)
	case err != nil:
		return "", cli.WrongValue(flag, value, err)
	}
	return flag, nil
}

func fileSide(file string) (s view.Side, err error) {
	r, err := readStored(file)
	switch {
	case err != nil:
		return s, err
	case r.estimate != nil:
		return view.DocumentSide(file, r.estimate)
	}
	return view.MeasuredSide(file, r.measured), nil
}
