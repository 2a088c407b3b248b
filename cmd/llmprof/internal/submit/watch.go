package submit

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// attempts is how often a shard is submitted before it is abandoned.
const attempts = 4

// Watch is how a job is watched.
type Watch struct {
	Say      func(format string, args ...any)
	Progress func(line string) // "" at the end
	Missing  func() []int      // the shards that are not finished
	Shortest time.Duration     // between two looks at the queue; it grows to twenty times as long
}

// A watcher is what is known of a job that is watched.
type watcher struct {
	*Slurm
	*Watch
	batches []batch
	tried   map[int]int // how often a shard was submitted
	lost    map[int]int // how many looks in a row found a shard neither queued nor finished
	deaf    int         // how many looks in a row got no answer
}

// outage is how many queries in a row may get no answer from Slurm's controller: at 20 times the
// shortest pause, some ten minutes.
const outage = 30

// Run submits what is missing, watches it, and submits again what was lost with a node or a
// task, until all shards are finished.
func (s *Slurm) Run(ctx context.Context, w *Watch) error {
	if err := os.MkdirAll(s.Folder.Dir, 0o777); err != nil {
		return fmt.Errorf("the folder of the shards: %w", err)
	}
	x := &watcher{Slurm: s, Watch: w, batches: s.batches(), tried: map[int]int{}, lost: map[int]int{}}
	defer w.Progress("")
	pause := w.Shortest / 10 // A few short shards are finished by then.
	for first, last := true, -1; ; first = false {
		left, err := x.look(ctx, first)
		if err != nil || left == 0 {
			return x.ended(ctx, err)
		}
		if pause = min(pause*3/2, 20*w.Shortest); left != last && !first {
			pause = w.Shortest
		}
		last = left
		select {
		case <-ctx.Done():
			return x.ended(ctx, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// ended says how to continue a watch that was interrupted.
func (x *watcher) ended(ctx context.Context, err error) error {
	if ctx.Err() == nil || len(x.batches) == 0 {
		return err
	}
	var jobs []string
	for _, b := range x.batches {
		jobs = append(jobs, b.Job)
	}
	x.Progress("")
	x.Say("the jobs go on: give the same command again to watch them and to put the shards together; scancel %s ends them",
		strings.Join(jobs, " "))
	return ctx.Err()
}

// look asks the queue and then the folder, submits what neither has, and returns how many
// shards are not finished. A shard counts as lost at the second look, since a shared folder
// may show a new file late.
func (x *watcher) look(ctx context.Context, first bool) (left int, err error) {
	queue, err := x.ask(ctx)
	if err != nil {
		if x.deaf++; first || x.deaf > outage || ctx.Err() != nil {
			return 0, err
		}
		x.Progress(err.Error())
		return x.Folder.Shards, nil
	}
	x.deaf = 0
	missing := x.Missing()
	again, q := []int{}, Queue{}
	for _, i := range missing {
		running, queued := queue[i]
		switch {
		case queued && running:
			q.Running++
		case queued:
			q.Waiting++
		}
		if queued {
			x.lost[i] = 0
			continue
		}
		if x.lost[i]++; first || x.lost[i] > 1 {
			again = append(again, i)
		}
	}
	if len(again) > 0 {
		if err := x.submitAgain(ctx, again); err != nil {
			return 0, err
		}
	}
	n := x.Folder.Shards
	x.Progress(fmt.Sprintf("%d of %d shards are finished, %d run, %d wait", n-len(missing), n, q.Running, q.Waiting+len(again)))
	return len(missing), nil
}

// ask asks what of all arrays waits or runs. Arrays of which nothing does are forgotten.
func (x *watcher) ask(ctx context.Context) (map[int]bool, error) {
	all := map[int]bool{}
	for i := range x.batches {
		tasks, err := x.queued(ctx, &x.batches[i])
		if err != nil {
			return nil, err
		}
		for shard, running := range tasks {
			all[shard] = all[shard] || running
		}
	}
	return all, nil
}

// submitAgain submits shards, unless one of them was often enough.
func (x *watcher) submitAgain(ctx context.Context, shards []int) error {
	for _, i := range shards {
		if x.tried[i]++; x.tried[i] == 1 {
			continue
		}
		job := x.jobOf(i)
		why := x.why(ctx, job, i)
		if x.tried[i] > attempts {
			return fmt.Errorf("shard %d of %d was submitted %d times and is not finished (%s): what is finished is kept in %s\n%s",
				i, x.Folder.Shards, attempts, why, x.Folder.Dir, x.log(job, i))
		}
		x.Say("shard %d of %d was lost (%s) and is submitted again", i, x.Folder.Shards, why)
	}
	b, err := x.submit(ctx, shards)
	if err != nil {
		return err
	}
	x.Say("job %s of Slurm has %d of %d shards", b.Job, len(shards), x.Folder.Shards)
	for _, i := range shards {
		x.lost[i] = 0
	}
	x.batches = append(x.batches, b)
	return x.remember(x.batches)
}

// jobOf is the array that last had a shard.
func (x *watcher) jobOf(shard int) (job string) {
	for _, b := range x.batches {
		for _, i := range b.Shards {
			if i == shard {
				job = b.Job
			}
		}
	}
	return job
}
