package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/hardware"
	"llmprof/measure/calibrate"
	"llmprof/measure/calibrate/probe"
	"llmprof/measure/detect"
	"llmprof/measure/experiment"
	"llmprof/measure/native/cuda"
	"llmprof/measure/power"
	"llmprof/unit"
)

// A fitting is a calibration as it was asked for on the command line.
type fitting struct {
	calibrate.Options
	gpu      string
	dtype    unit.Format
	hardware string
	name     string
	file     string // where the calibration goes
	imports  string // tables of operators
	server   serverFit
	source   string // where they are from
	shared   bool
	given    func(flag string) bool
	gpus     func(context.Context) []detect.Device // GPUs of this machine
}

func (a *app) calibrate() *cobra.Command {
	c := &fitting{gpus: detect.Here, server: serverFit{Server: probe.Server{Point: experiment.Default()}}}
	cmd := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure what the GPU here reaches, for estimates",
		Long: "Time single operators on the GPU of this machine (products, attention, memory, element-wise\n" +
			"kernels, launches, all-reduces, the engine's host), measure its power meanwhile, and\n" +
			"fit the constants that estimates are made with. The result is a TOML file, for --calibration.\n\n" +
			"Without --engine the kernels of the native engine are timed where it finds a GPU and its\n" +
			"libraries, else those of torch as transformers calls them, both in a graph and eagerly. All-reduces\n" +
			"are timed from --tp 2 on: the native engine's own over peer memory, or transformers' by NCCL. After\n" +
			"--limit nothing more is begun, and the constants of what was not measured stay the defaults of the\n" +
			"GPU's generation.\n\n" +
			"With --rows FILE every time is kept in FILE (JSON Lines) as soon as it is measured, and a later\n" +
			"call with the same flags goes on there. With --rows alone, of a file that exists, nothing is\n" +
			"measured: the constants are fitted to its rows again, and no GPU is needed.\n\n" +
			"With --import nothing is measured either: published tables of the operator times of --engine on\n" +
			"--gpu are fitted, each number format by itself, and scored on shapes that were left out.\n\n" +
			"With --engine openai a server that runs is asked for two minutes (--limit): TTFT over prompt\n" +
			"lengths, the time of a decode step over batches and contexts. The constants of its host and of its\n" +
			"GPU that these times depend on are fitted; every third point is held out and scored.",
		Example: "  llmprof calibrate -o h200.toml\n" +
			"  llmprof calibrate --engine transformers --tp 8 --rows h200.jsonl -o h200.toml\n" +
			"  llmprof calibrate --rows h200.jsonl\n" +
			"  llmprof calibrate --import data/h200_sxm --engine vllm -g h200 -o v.toml\n" +
			"  llmprof calibrate --engine openai --base-url http://gpu1:8000/v1 -g h200\n" +
			"  llmprof estimate --model llama3.1-8b --gpu h200 --calibration h200.toml",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.given = cmd.Flags().Changed
			if err := writable(c.file); err != nil {
				return err
			}
			if c.Engine == experiment.OpenAI {
				return a.calibrateServer(cmd.Context(), c)
			}
			if err := settings.Refuse(c.given, ofServer, "--%s is about a server: give --engine openai"); err != nil {
				return err
			}
			if c.imports != "" {
				return a.importTables(c)
			}
			return a.runCalibrate(cmd.Context(), c)
		},
	}
	cli.Define(cmd, "What is fitted", c.flags)
	cli.Define(cmd, "Server (--engine openai)", c.server.flags)
	cli.Rare(cmd, "served-engine", "served-model", "served-weights", "served-kv", "api", "max-batch", "max-tokens", "seed", "offline",
		"python", "cuda-libs", "shared", "device", "quick", "source", "name")
	return cmd
}

// flags are those of operators that are timed here.
func (c *fitting) flags(f *pflag.FlagSet) {
	f.StringVar(&c.Engine, "engine", "", "`engine`: native, transformers or openai, a server (default: native if it can)")
	settings.Words(f, "engine", calibrate.Native, calibrate.Transformers, experiment.OpenAI)
	f.StringVarP(&c.gpu, "gpu", "g", "", "`GPU` of the table (default: the one found here)")
	settings.Choice(f, &c.Device, "device", "", "`device`: %s (default: a GPU)", "cuda", "cpu")
	f.Var(settings.Value(&c.dtype), "dtype", "`format` of products: bf16, fp16 or fp32 (default: bf16; cpu: fp32)")
	settings.Words(f, "dtype", "bf16", "fp16", "fp32")
	f.IntVar(&c.TP, "tp", 1, "time all-reduces over up to this many `GPUs`")
	f.StringVar(&c.Python, "python", "", "Python `interpreter` of the transformers engine (default: python3)")
	f.StringVar(&c.Libraries, "cuda-libs", "", "`folder` of the CUDA libraries that the native engine opens")
	f.StringVar(&c.File, "rows", "", "keep the rows in `FILE`, and go on with those that it has")
	f.DurationVar(&c.Limit, "limit", 5*time.Minute, "begin nothing more after this `time`; a server: 2m unless given")
	f.StringVar(&c.imports, "import", "", "fit to the tables of operator times in `DIR` or FILE (Parquet, CSV) in place of measuring")
	f.StringVar(&c.source, "source", "", "of --import: `NAME,VERSION,LICENCE` of the tables (default: of the Python package they lie in)")
	f.BoolVar(&c.Quick, "quick", false, "tiny shapes, to see whether all of it works")
	f.BoolVar(&c.shared, "shared", false, "measure although others use the GPUs")
	f.StringVar(&c.name, "name", "", "`name` of the calibration (default: that of -o, or the GPU's key)")
	hardwareFlag(f, &c.hardware)
	f.StringVarP(&c.file, "output", "o", "", "write the calibration to `FILE`, whole or not at all")
}

func (c *fitting) check() error {
	switch {
	case c.Engine != "" && c.Engine != calibrate.Native && c.Engine != calibrate.Transformers:
		return usage("--engine %.40q: want native, transformers, or openai with the --base-url of a server of any engine", c.Engine)
	case c.Device == "cpu" && c.Engine == calibrate.Native:
		return usage("--device cpu: the native engine needs a GPU; give --engine transformers")
	case c.Device == "cpu" && c.gpu == "":
		return usage("--device cpu: give --gpu and a --hardware file that describes this processor: the constants are shares of its peaks")
	case c.dtype != unit.NoFormat && c.dtype != unit.BF16 && c.dtype != unit.FP16 && c.dtype != unit.FP32:
		return usage("--dtype %v: want bf16, fp16 or fp32", c.dtype)
	case c.Engine == calibrate.Native && c.dtype != unit.NoFormat && c.dtype != unit.BF16:
		return usage("--dtype %v: the native engine computes in bf16 alone", c.dtype)
	case c.TP < 1 || c.TP > 16:
		return usage("--tp %d: want a number of GPUs from 1 to 16", c.TP)
	case c.Limit <= 0:
		return usage("--limit %v: want a time above 0", c.Limit)
	case c.file != "" && sameFile(c.file, c.File):
		return usage("-o %s: the calibration would replace the rows of --rows; name another file", c.file)
	case c.file != "" && sameFile(c.file, c.imports):
		return usage("-o %s: the calibration would replace the table of --import; name another file", c.file)
	}
	return nil
}

// sameFile reports whether two names are of one file, which need not be there yet.
func sameFile(name, other string) bool {
	if filepath.Clean(name) == filepath.Clean(other) {
		return true
	}
	a, err := os.Stat(name)
	b, failed := os.Stat(other)
	return err == nil && failed == nil && os.SameFile(a, b)
}

// refit reports whether the rows of a file are all that is asked for.
func (c *fitting) refit() bool {
	if slices.ContainsFunc([]string{"engine", "device", "dtype", "tp", "python", "cuda-libs", "limit", "quick", "shared"}, c.given) {
		return false
	}
	_, err := os.Stat(c.File)
	return c.File != "" && err == nil
}

func (a *app) runCalibrate(ctx context.Context, c *fitting) error {
	if err := c.check(); err != nil {
		return err
	}
	table, err := a.library().GPUs(c.hardware)
	if err != nil {
		return err
	}
	var rows *calibrate.Rows
	switch refit := c.refit(); {
	case refit && calibrate.IsServed(c.File):
		return a.refitServed(ctx, c, table)
	case refit:
		if rows, err = calibrate.ReadRows[calibrate.Machine, calibrate.Row](c.File); err != nil {
			return err
		}
		a.logf("%d rows of %s are fitted; to measure what they lack, give --engine", len(rows.Rows), c.File)
		if rows.Torn > 0 {
			a.logf("the last line of %s was never finished and is left out", c.File)
		}
		if c.gpu == "" {
			c.gpu = rows.Head.GPU
		}
		g, err := table.GPU(c.gpu)
		if err != nil {
			return err
		}
		c.GPU = &g
	default:
		if rows, err = a.measureConstants(ctx, c, table); err != nil {
			return err
		}
	}
	return a.writeCalibration(c, rows)
}

// measureConstants finds the GPU and its engine, and times them.
func (a *app) measureConstants(ctx context.Context, c *fitting, table *hardware.Table) (rows *calibrate.Rows, err error) {
	if c.Engine == "" {
		c.Engine = calibrate.Transformers
		if c.Device != "cpu" && cuda.Ready(c.Libraries) == nil {
			c.Engine = calibrate.Native
		}
	}
	if c.Native, err = nativeCommand(); err != nil {
		return nil, err
	}
	g, uuids, err := detect.Target(ctx, table, c.Device, c.gpu, c.gpus)
	if err != nil {
		return nil, err
	}
	c.GPU = &g
	c.Root, c.Version = os.DirFS("/"), versionText()
	c.Say = func(line string) { a.logf("%s", line) }
	if c.Device != "cpu" {
		c.Monitor, err = power.Open(ctx, power.Options{GPUs: uuids, Root: c.Root, Env: a.env})
		if err != nil && !errors.Is(err, power.ErrNoSensor) {
			return nil, err
		}
		if err == nil {
			defer func() { err = errors.Join(err, c.Monitor.Close()) }()
			if err := c.unused(ctx); err != nil {
				return nil, err
			}
		}
	}
	if c.DType = c.dtype; c.DType == unit.NoFormat {
		c.DType = unit.BF16
		if c.Device == "cpu" {
			c.DType = unit.FP32
		} else if !c.GPU.Has(unit.BF16) {
			c.DType = unit.FP16
		}
	}
	return calibrate.Run(ctx, c.Options)
}

// unused refuses GPUs that others compute on, unless that is meant.
func (c *fitting) unused(ctx context.Context) error {
	if c.shared {
		return nil
	}
	busy, err := c.Monitor.Busy(ctx)
	if err != nil || len(busy) == 0 {
		return err
	}
	return fmt.Errorf("the GPU is busy: %v; wait for it, or measure all the same with --shared", busy[0])
}

func (a *app) writeCalibration(c *fitting, rows *calibrate.Rows) error {
	if len(rows.Rows) == 0 {
		return errors.New("not a point was measured: there is nothing to fit")
	}
	f, err := calibrate.Fit(rows, c.GPU, c.called())
	if err != nil {
		return err
	}
	return a.writeFitted(c, f)
}

func (c *fitting) called() string {
	switch {
	case c.name != "":
		return c.name
	case c.file == "":
		return c.GPU.Key
	}
	return strings.TrimSuffix(filepath.Base(c.file), filepath.Ext(c.file))
}

func (a *app) writeFitted(c *fitting, f *hardware.CalibrationFile) error {
	text := f.Text()
	if _, err := hardware.ParseCalibration(f.Name, text); err != nil { // no file is written that cannot be read
		return fmt.Errorf("the constants make no calibration: %w", err)
	}
	return a.put("calibration", c.file, []byte(text))
}
