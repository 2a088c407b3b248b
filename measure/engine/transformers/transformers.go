// Package transformers runs any causal language model of Hugging Face
// transformers in a worker of the user's Python, whose program it carries.
package transformers

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"llmprof/measure/engine"
	"llmprof/measure/engine/child"
)

//go:embed llmprof_worker/*.py
var program embed.FS

// module is the worker's program, as Python calls it.
const module = "llmprof_worker"

// Options say with which Python, on which GPUs and on how many ranks a worker
// runs.
type Options struct {
	Python  string   // a program or a path; "" for python3, then python
	GPUs    []string // UUIDs that it may see, in order; nil for what this program sees
	TP      int      // ranks on this node and others together; 0 and 1 need no launcher
	Nodes   int      // hosts that TP is spread over; 0 is 1
	Node    int      // this host among them, from 0
	Rdzv    string   // host:port of node 0, where there are several
	Env     []string // added to the environment
	LogFile string   // for the worker's whole log; "" for none
	Limits  engine.Limits
}

// Start starts a worker. Its program lies in a directory of its own until it ends.
func Start(ctx context.Context, o Options) (*engine.Worker, error) {
	python, err := o.python()
	if err != nil {
		return nil, err
	}
	command, err := o.command(python)
	if err != nil {
		return nil, err
	}
	dir, err := unpack()
	if err != nil {
		return nil, fmt.Errorf("the worker's program cannot be written: %w", err)
	}
	return engine.Start(ctx, engine.Spec{
		Command: command,
		Env:     o.environment(dir),
		LogFile: o.LogFile,
		Limits:  o.Limits,
		Cleanup: func() { _ = os.RemoveAll(dir) },
	})
}

// Join runs the ranks of this node for a measurement that node 0 leads, until it
// has ended. What was measured is known there alone.
func Join(ctx context.Context, o Options) error {
	python, err := o.python()
	if err != nil {
		return err
	}
	command, err := o.command(python)
	if err != nil {
		return err
	}
	dir, err := unpack()
	if err != nil {
		return fmt.Errorf("the worker's program cannot be written: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ranks, err := child.Start(child.Spec{Command: command, Env: o.environment(dir), LogFile: o.LogFile, Grace: 10 * time.Second})
	if err != nil {
		return err
	}
	select {
	case <-ranks.Ended():
	case <-ctx.Done():
		ranks.End(context.WithoutCancel(ctx)) // it has a grace of its own
		return context.Cause(ctx)
	}
	if how := ranks.How(); how != child.Well {
		return fmt.Errorf("the ranks of node %d: %s%s", o.Node, how, child.Quote(ranks.Log()))
	}
	return nil
}

// StartReplicas starts a worker for each group of GPUs: their UUIDs, as many as
// TP on this node. The log of replica i goes to LogFile with .i after it.
func StartReplicas(ctx context.Context, o Options, gpus [][]string) (engine.Group, error) {
	return engine.StartGroup(ctx, len(gpus), func(ctx context.Context, i int) (*engine.Worker, error) {
		mine := o
		mine.GPUs = gpus[i]
		if o.LogFile != "" {
			mine.LogFile = fmt.Sprintf("%s.%d", o.LogFile, i)
		}
		return Start(ctx, mine)
	})
}

// python finds the interpreter.
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
	return "", &engine.Failure{
		Kind:    engine.Missing,
		Message: fmt.Sprintf("no Python to run transformers with (%v): name one that has torch and transformers", errors.Join(errs...)),
		Fatal:   true,
	}
}

// command is Python on the worker, under torchrun where there are several ranks.
func (o Options) command(python string) ([]string, error) {
	tp, nodes := max(o.TP, 1), max(o.Nodes, 1)
	switch {
	case tp%nodes != 0:
		return nil, invalid("TP %d does not divide over %d nodes", tp, nodes)
	case nodes > 1 && o.Rdzv == "":
		return nil, invalid("%d nodes need a meeting point, host:port of node 0", nodes)
	case o.Node < 0 || o.Node >= nodes:
		return nil, invalid("node %d of %d: they count from 0", o.Node, nodes)
	case len(o.GPUs) > 0 && len(o.GPUs) != tp/nodes:
		return nil, invalid("%d GPUs for %d ranks on this node", len(o.GPUs), tp/nodes)
	case tp == 1:
		return []string{python, "-m", module}, nil
	}
	command := []string{python, "-m", "torch.distributed.run", "--nproc_per_node", strconv.Itoa(tp / nodes)}
	if nodes == 1 {
		command = append(command, "--standalone")
	} else {
		// The c10d meeting gives ranks out as nodes arrive; the one that leads has to be here.
		host, port, err := net.SplitHostPort(o.Rdzv)
		if err != nil {
			return nil, invalid("the meeting point %q: %v; want host:port of node 0", o.Rdzv, err)
		}
		command = append(command, "--nnodes", strconv.Itoa(nodes), "--node_rank", strconv.Itoa(o.Node),
			"--master_addr", host, "--master_port", port)
	}
	return append(command, "-m", module), nil
}

func invalid(format string, args ...any) error {
	return &engine.Failure{Kind: engine.Invalid, Message: fmt.Sprintf(format, args...)}
}

// environment is what the worker has beside this program's own.
func (o Options) environment(dir string) []string {
	path := dir
	if had := os.Getenv("PYTHONPATH"); had != "" {
		path += string(os.PathListSeparator) + had
	}
	env := []string{
		"PYTHONPATH=" + path,
		"PYTHONUNBUFFERED=1",
		"PYTHONDONTWRITEBYTECODE=1",
		"TOKENIZERS_PARALLELISM=false",
		"HF_HUB_DISABLE_PROGRESS_BARS=1",
		"CUDA_DEVICE_ORDER=PCI_BUS_ID",
	}
	if len(o.GPUs) > 0 {
		visible := o.GPUs[0]
		for _, uuid := range o.GPUs[1:] {
			visible += "," + uuid
		}
		env = append(env, "CUDA_VISIBLE_DEVICES="+visible)
	}
	return append(env, o.Env...)
}

// unpack writes the worker's program into a new directory.
func unpack() (dir string, err error) {
	dir, err = os.MkdirTemp("", "llmprof-worker-")
	if err != nil {
		return "", err
	}
	files, err := fs.Glob(program, module+"/*.py")
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, module), 0o700)
	}
	for _, name := range files {
		if err != nil {
			break
		}
		var text []byte
		if text, err = program.ReadFile(name); err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), text, 0o600)
		}
	}
	if err != nil {
		_ = os.RemoveAll(dir)
	}
	return dir, err
}
