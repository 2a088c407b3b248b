package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/shlex"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/cmd/llmprof/internal/submit"
	"llmprof/internal/atomicfile"
	"llmprof/internal/input"
	"llmprof/plan/sweep"
)

// A submission is which part of a command this process has, and where the others run.
type submission struct {
	cmd     *cobra.Command
	shard   string
	to      string // "slurm", "kubernetes" or "", which is here
	shards  int
	dir     string
	options string // options of sbatch
	image   string
	claim   string
	gpus    int
	part    string // the folder that a task keeps its shard in
}

// flags defines the flags of a command that has shards. Of is what they are shares of.
func (s *submission) flags(cmd *cobra.Command, of string) {
	s.cmd = cmd
	cli.Define(cmd, "Machines", func(f *pflag.FlagSet) {
		f.StringVar(&s.shard, "shard", "", "one `I/N` of the "+of+", as 2/8; all of them put together are the whole")
		settings.Choice(f, &s.to, "submit", "", "run shards on a `cluster`: slurm, or kubernetes for a manifest", "slurm", "kubernetes")
		f.IntVar(&s.shards, "shards", 0, "`number` of shards that are submitted (default: 16 at most)")
		f.StringVar(&s.dir, "shard-dir", "", "`folder` of the shards, which all machines see (default: llmprof-shards/KEY)")
		f.StringVar(&s.options, "submit-options", "", "`options` of sbatch, as \"--partition=cpu --time=1:00:00\"")
		f.StringVar(&s.image, "image", "llmprof:"+release, "container `image` of the pods")
		f.StringVar(&s.claim, "volume-claim", "llmprof", "`claim` of the volume that the pods share")
		f.IntVar(&s.gpus, "pod-gpus", 0, "`GPUs` of each pod")
		f.StringVar(&s.part, "part", "", "`folder` that a task keeps its shard in")
		_ = f.MarkHidden("part")
	})
	cli.MayBeEmpty(cmd, "submit") // a task runs the command line that submitted it, without a place to submit to
	cli.Rare(cmd, "shards", "shard-dir", "submit-options", "image", "volume-claim", "pod-gpus")
}

func (s *submission) check() error {
	given := s.cmd.Flags().Changed
	switch {
	case s.to != "" && s.shard != "":
		return usage("--submit gives every task its shard: leave out --shard")
	case s.part != "": // the flags of the submission are in the command line of its tasks
		if s.shard == "" {
			return usage("--part is of a task: it needs --shard")
		}
	case s.to == "" && (given("shards") || given("shard-dir")):
		return usage("--shards and --shard-dir are of --submit: --shard I/N runs one shard here")
	case s.to != "slurm" && s.options != "":
		return usage("--submit-options are of --submit slurm")
	case s.to != "kubernetes" && (given("image") || given("volume-claim") || given("pod-gpus")):
		return usage("--image, --volume-claim and --pod-gpus are of --submit kubernetes")
	case given("shards") && s.shards < 1 || s.shards > 1<<20:
		return usage("--shards %d: want from 1 to %d", s.shards, 1<<20)
	}
	return nil
}

// mine is the shard of this process; the zero Shard is all.
func (s *submission) mine(a *app) (sweep.Shard, error) {
	if s.shard == "" {
		return sweep.Shard{}, nil
	}
	shard, err := submit.ParseShard(s.shard, a.env)
	if err != nil {
		return shard, usage("--shard: %w", err)
	}
	return shard, nil
}

// begin begins the shard of a task, whose rows are of a form. The part is nil where this process is no task, or where
// the shard is finished; then done is true.
func (s *submission) begin(a *app, shard sweep.Shard, form string) (p *submit.Part, done bool, err error) {
	if s.part == "" {
		return nil, false, nil
	}
	f := submit.Folder{Dir: s.part, Shards: shard.N}
	if f.Key, err = s.key(a, "", form); err != nil {
		return nil, false, err
	}
	if err := f.Claim(true); err != nil {
		return nil, false, err
	}
	if f.Finished(shard.I) {
		return nil, true, nil
	}
	p, err = f.Begin(shard.I)
	return p, false, err
}

// ownFlags are those of a submission and its tasks, and those that say where the whole goes and from where on: they do not
// change what a shard is.
var ownFlags = []string{"submit", "shards", "shard-dir", "shard", "part", "submit-options", "image", "volume-claim", "pod-gpus", "output",
	"from", "plot",
	"color"}

// key is what the shards of a command are computed from: the settings, and the files that were read until now.
func (s *submission) key(a *app, program, form string) (*submit.Key, error) {
	settings := []string{s.cmd.Name(), form}
	s.cmd.Flags().Visit(func(x *pflag.Flag) {
		if !slices.Contains(ownFlags, x.Name) {
			settings = append(settings, x.Name+"="+x.Value.String())
		}
	})
	files, err := a.read.Contents()
	if err != nil {
		return nil, err
	}
	return submit.NewKey(program, append(settings, s.cmd.Flags().Args()...), files)
}

// folder is where the shards of so many units are: of the same command they are in the same folder. All that
// it computes from has been read before.
func (s *submission) folder(a *app, units int, form string) (f *submit.Folder, err error) {
	f = &submit.Folder{Dir: s.dir, Shards: s.shards}
	if f.Shards == 0 {
		f.Shards = 16
	}
	f.Shards = min(f.Shards, max(units, 1))
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if f.Key, err = s.key(a, program, form); err != nil {
		return nil, err
	}
	if f.Dir == "" {
		f.Dir = filepath.Join("llmprof-shards", s.cmd.Name()+"-"+f.Key.Name())
	}
	if s.to == "kubernetes" {
		f.Key.Program = "" // pods have that of their image
	}
	return f, nil
}

// elsewhere runs the shards on the cluster, and reports whether all of them are finished, so
// that they can be put together. Missing lists those that are not; nil asks the folder.
func (a *app) elsewhere(ctx context.Context, s *submission, f *submit.Folder, missing func() []int) (ready bool, err error) {
	if missing == nil { // the shards are put together
		if err := f.Claim(s.to == "slurm"); err != nil {
			return false, err
		}
		missing = f.Missing
	}
	if s.to == "kubernetes" {
		return a.manifest(s, f, missing)
	}
	if f.Dir, err = filepath.Abs(f.Dir); err != nil {
		return false, err
	}
	program, err := os.Executable()
	if err != nil {
		return false, err
	}
	options, err := shlex.Split(s.options)
	if err != nil {
		return false, usage("--submit-options: %w", err)
	}
	job := submit.Slurm{Name: "llmprof-" + s.cmd.Name() + "-" + f.Key.Name(), Folder: f, Command: append([]string{program}, a.task(f)...),
		Options: options}
	a.logf("%d shards are kept in %s", f.Shards, f.Dir)
	follow := a.follow()
	say := func(format string, args ...any) {
		follow.progress("")
		a.logf(format, args...)
	}
	err = job.Run(ctx, &submit.Watch{Say: say, Progress: follow.progress, Missing: missing, Shortest: time.Second})
	return err == nil, err
}

// task is the command line of a task: that of this process, with what makes it a shard. Flags
// that come later count, but for those behind a "--", which are none.
func (a *app) task(f *submit.Folder) []string {
	end := slices.Index(a.args, "--")
	if end < 0 {
		end = len(a.args)
	}
	return slices.Insert(slices.Clone(a.args), end, "--submit=", fmt.Sprintf("--shard=auto/%d", f.Shards), "--part="+f.Dir)
}

// manifest writes an Indexed Job, unless all shards are finished.
func (a *app) manifest(s *submission, f *submit.Folder, missing func() []int) (ready bool, err error) {
	left := missing()
	if len(left) == 0 {
		return true, nil
	}
	if filepath.IsAbs(f.Dir) {
		return false, usage("--shard-dir %s: want a folder relative to the volume, which pods see at /work", f.Dir)
	}
	pod := submit.Pod{
		Name: podName(filepath.Base(f.Dir)), Shards: f.Shards, Image: s.image, Claim: s.claim, Command: a.task(f), GPUs: s.gpus,
	}
	if _, err := fmt.Fprint(a.stdout, pod.Manifest()); err != nil {
		return false, fmt.Errorf("writing the manifest: %w", err)
	}
	a.logf("%d of %d shards are finished in %s: apply this manifest, then give the same command again in the folder of the volume to put "+
		"them together",
		f.Shards-len(left), f.Shards, f.Dir)
	return false, nil
}

// podName is a name that Kubernetes takes.
func podName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower("llmprof-"+s))
	return strings.Trim(s[:min(len(s), 52)], "-") // pods add the index and five letters
}

// whole writes what was put together of the shards, whole or not at all.
func (a *app) whole(file string, join func(io.Writer) error) (err error) {
	if file == "" || file == "-" {
		return join(a.stdout)
	}
	f, err := atomicfile.Replace(file, 0o666)
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, input.Cause(err))
	}
	if err := join(f); err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", file, err), f.Drop())
	}
	return f.Keep()
}
