// Package transformers runs any causal language model of Hugging Face
// transformers in a worker of the user's Python. The worker's program is embedded.
package transformers

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"llmprof/internal/child"
	"llmprof/measure/worker"
)

//go:embed launch.py llmprof_worker/*.py
var program embed.FS

// launcher is the file of the program that Python is started with.
const launcher = "launch.py"

// Options say with which Python, on which GPUs and on how many ranks a worker
// runs.
type Options struct {
	Python string   // a program or a path; "" for python3, then python
	GPUs   []string // UUIDs that it may see, in order; nil for what this program sees
	TP     int      // ranks on this node and others together; 0 and 1 need no launcher
	Nodes  int      // hosts that TP is spread over; 0 is 1
	Node   int      // this host among them, from 0
	Rdzv   string   // host:port of node 0, where there are several
	Env    []string // added to the environment
}

// Start starts a worker. Its program lies in a directory of its own until it ends.
func Start(ctx context.Context, o Options) (*worker.Worker, error) {
	command, dir, err := o.prepare()
	if err != nil {
		return nil, err
	}
	return worker.Start(ctx, worker.Spec{
		Command: command,
		Env:     o.environment(),
		Cleanup: func() { _ = os.RemoveAll(dir) },
	})
}

// Join runs the ranks of this node for a measurement that node 0 leads, until it
// has ended. What was measured is known there alone.
func Join(ctx context.Context, o Options) error {
	command, dir, err := o.prepare()
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ranks, err := child.Start(child.Spec{Command: command, Env: o.environment(), Grace: 10 * time.Second})
	if err != nil {
		return err
	}
	select {
	case <-ranks.Ended():
	case <-ctx.Done():
		ranks.End(context.WithoutCancel(ctx)) // End has a grace period of its own.
		return context.Cause(ctx)
	}
	if how := ranks.How(); how != child.Well {
		return fmt.Errorf("the ranks of node %d: %s%s", o.Node, how, child.Quote(ranks.Log()))
	}
	return nil
}

// prepare writes the worker's program into a folder, and gives the command that runs it.
func (o Options) prepare() (command []string, dir string, err error) {
	python, err := o.python()
	if err != nil {
		return nil, "", err
	}
	arguments, err := o.arguments()
	if err != nil {
		return nil, "", err
	}
	if dir, err = unpack(); err != nil {
		return nil, "", fmt.Errorf("the worker's program cannot be written: %w", err)
	}
	launch := filepath.Join(dir, launcher)
	command = []string{python, launch}
	if len(arguments) > 0 {
		command = append(append(command, arguments...), launch)
	}
	return command, dir, nil
}

func (o Options) python() (string, error) {
	names := []string{"python3", "python"}
	if o.Python != "" {
		names = []string{o.Python}
	}
	var errs []error
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err == nil {
			return filepath.Abs(path)
		}
		errs = append(errs, err)
	}
	return "", &worker.Failure{
		Kind:    worker.Missing,
		Message: fmt.Sprintf("no Python to run transformers with (%v): name one that has torch and transformers", errors.Join(errs...)),
		Fatal:   true,
	}
}

// arguments are those of the launcher: torchrun's where there are several ranks.
func (o Options) arguments() ([]string, error) {
	tp, nodes := max(o.TP, 1), max(o.Nodes, 1)
	switch {
	case tp%nodes != 0:
		return nil, worker.Invalidf("TP %d does not divide over %d nodes", tp, nodes)
	case nodes > 1 && o.Rdzv == "":
		return nil, worker.Invalidf("%d nodes need a meeting point, host:port of node 0", nodes)
	case o.Node < 0 || o.Node >= nodes:
		return nil, worker.Invalidf("node %d of %d: they count from 0", o.Node, nodes)
	case len(o.GPUs) > 0 && len(o.GPUs) != tp/nodes:
		return nil, worker.Invalidf("%d GPUs for %d ranks on this node", len(o.GPUs), tp/nodes)
	case tp == 1:
		return nil, nil
	}
	arguments := []string{"torchrun", "--nproc_per_node", strconv.Itoa(tp / nodes)}
	if nodes == 1 {
		return append(arguments, "--standalone"), nil
	}
	// The c10d meeting gives ranks out as nodes arrive; the one that leads has to be here.
	host, port, err := net.SplitHostPort(o.Rdzv)
	if err != nil {
		return nil, worker.Invalidf("the meeting point %q: %v; want host:port of node 0", o.Rdzv, err)
	}
	return append(arguments, "--nnodes", strconv.Itoa(nodes), "--node_rank", strconv.Itoa(o.Node),
		"--master_addr", host, "--master_port", port), nil
}

// environment is what the worker has beside this program's own. An empty entry of
// PYTHONPATH is the working directory, which mostly nobody meant.
func (o Options) environment() []string {
	path := slices.DeleteFunc(filepath.SplitList(os.Getenv("PYTHONPATH")), func(entry string) bool { return entry == "" })
	env := []string{
		"PYTHONPATH=" + strings.Join(path, string(os.PathListSeparator)),
		"PYTHONSAFEPATH=1", // Python itself, and whatever the libraries start, heeds it
		"PYTHONUNBUFFERED=1",
		"PYTHONDONTWRITEBYTECODE=1",
		"TOKENIZERS_PARALLELISM=false",
		"HF_HUB_DISABLE_PROGRESS_BARS=1",
		"CUDA_DEVICE_ORDER=PCI_BUS_ID",
	}
	if len(o.GPUs) > 0 {
		env = append(env, "CUDA_VISIBLE_DEVICES="+strings.Join(o.GPUs, ","))
	}
	return append(env, o.Env...)
}

// unpack writes the worker's program into a new directory.
func unpack() (dir string, err error) {
	dir, err = os.MkdirTemp("", "llmprof-worker-")
	if err != nil {
		return "", err
	}
	if err = os.CopyFS(dir, program); err != nil {
		_ = os.RemoveAll(dir)
	}
	return dir, err
}
