package submit

import (
	"context"
	"fmt"
	"os"
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
	job   map[int]string // the array that a shard was submitted with last
	tried map[int]int    // how often a shard was submitted
	lost  map[int]int    // how many looks in a row found a shard neither queued nor finished
	deaf  int            // how many looks in a row got no answer
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
	x := &watcher{Slurm: s, Watch: w, job: map[int]string{}, tried: map[int]int{}, lost: map[int]int{}}
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
	if ctx.Err() == nil {
		return err
	}
	x.Progress("")
	x.Say("the jobs go on: give the same command again to watch them and to put the shards together; scancel --name=%s ends them", x.Name)
	return ctx.Err()
}

// look asks the queue and then the folder, submits what neither has, and returns how many
// shards are not finished. A shard counts as lost at the second look, since a shared folder
// may show a new file late.
func (x *watcher) look(ctx context.Context, first bool) (left int, err error) {
	queue, err := x.queued(ctx)
	if err != nil {
		if x.deaf++; first || x.deaf > outage || ctx.Err() != nil {
			return 0, err
		}
		x.Progress(err.Error())
		return x.Folder.Shards, nil
	}
	x.deaf = 0
	missing := x.Missing()
	again, run, wait := []int{}, 0, 0
	for _, i := range missing {
		running, queued := queue[i]
		switch {
		case queued && running:
			run++
		case queued:
			wait++
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
	x.Progress(fmt.Sprintf("%d of %d shards are finished, %d run, %d wait", n-len(missing), n, run, wait+len(again)))
	return len(missing), nil
}

// submitAgain submits shards, unless one of them was often enough.
func (x *watcher) submitAgain(ctx context.Context, shards []int) error {
	for _, i := range shards {
		if x.tried[i]++; x.tried[i] == 1 {
			continue
		}
		job := x.job[i]
		why := x.why(ctx, job, i)
		if x.tried[i] > attempts {
			return fmt.Errorf("shard %d of %d was submitted %d times and is not finished (%s): what is finished is kept in %s\n%s",
				i, x.Folder.Shards, attempts, why, x.Folder.Dir, x.log(job, i))
		}
		x.Say("shard %d of %d was lost (%s) and is submitted again", i, x.Folder.Shards, why)
	}
	job, err := x.submit(ctx, shards)
	if err != nil {
		return err
	}
	x.Say("job %s of Slurm has %d of %d shards", job, len(shards), x.Folder.Shards)
	for _, i := range shards {
		x.lost[i], x.job[i] = 0, job
	}
	return nil
}
