package submit

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"llmprof/internal/input"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/kube"
)

// finish writes shard i with a text.
func finish(t *testing.T, f *Folder, i int, text string) {
	t.Helper()
	p, err := f.Begin(i)
	testkit.Must(t, err)
	defer p.Drop()
	w, err := p.File("rows")
	testkit.Must(t, err)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if f.Finished(i) {
		t.Errorf("shard %d is finished before it is kept", i)
	}
	testkit.Must(t, p.Keep(map[string]int{"points": i}))
}

// A shard is finished only with its record and all bytes of its files.
func TestFolder(t *testing.T) {
	f := &Folder{Dir: filepath.Join(t.TempDir(), "a", "b"), Shards: 3}
	finish(t, f, 1, "one\n")
	finish(t, f, 3, "three\n")
	if got := f.Missing(); !slices.Equal(got, []int{2}) {
		t.Fatalf("missing are %v", got)
	}
	finish(t, f, 2, "two\n")
	var all strings.Builder
	if err := f.Join(&all, "rows"); err != nil || all.String() != "one\ntwo\nthree\n" || len(f.Missing()) > 0 {
		t.Errorf("%q, %v", all.String(), err)
	}
	note := map[string]int{}
	if err := f.Note(3, &note); err != nil || note["points"] != 3 {
		t.Errorf("%v, %v", note, err)
	}
	left, err := filepath.Glob(filepath.Join(f.Dir, "*.tmp"))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
	for name, damage := range map[string]string{"00001-of-00003.rows": "onf\n", "00002-of-00003.json": `{"files":`} {
		testkit.Must(t, os.WriteFile(filepath.Join(f.Dir, name), []byte(damage), 0o644))
	}
	again := &Folder{Dir: f.Dir, Shards: 3}
	if got := again.Missing(); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("of a changed file and half a record missing are %v", got)
	}
}

// A part that was dropped leaves nothing.
func TestDrop(t *testing.T) {
	f := &Folder{Dir: t.TempDir(), Shards: 1}
	p, err := f.Begin(1)
	testkit.Must(t, err)
	if _, err := p.File("rows"); err != nil {
		t.Fatal(err)
	}
	p.Drop()
	if entries, err := os.ReadDir(f.Dir); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// A folder takes shards of one key alone: of the same settings and contents of files, whatever the files' names.
func TestClaim(t *testing.T) {
	key := func(settings string, texts ...string) *Key {
		t.Helper()
		files := []input.Content{}
		for i, text := range texts {
			files = append(files, input.Content{Name: filepath.Join(t.TempDir(), strconv.Itoa(i)), SHA256: text})
		}
		k, err := NewKey(os.Args[0], strings.Fields(settings), files)
		testkit.Must(t, err)
		return k
	}
	dir := filepath.Join(t.TempDir(), "[a]")
	f := &Folder{Dir: dir, Shards: 2, Key: key("model=m batch=1", "a", "b")}
	if err := f.Claim(false); err != nil || f.used() {
		t.Errorf("a folder that is not there: %v", err)
	}
	testkit.Must(t, f.Claim(true))
	finish(t, f, 1, "one\n")
	anywhere := key("model=m batch=1", "a", "b")
	anywhere.Program = ""
	for _, k := range []*Key{key("model=m batch=1", "a", "b"), anywhere} {
		if err := (&Folder{Dir: dir, Shards: 2, Key: k}).Claim(true); err != nil {
			t.Errorf("the same key: %v", err)
		}
	}
	newer := key("model=m batch=1", "a", "b")
	newer.Program = "x"
	for want, k := range map[string]*Key{
		"the settings were others": key("model=m batch=2", "a", "b"), "/1 were others": key("model=m batch=1", "a", "c"),
		"/2 was not read then": key("model=m batch=1", "a", "b", "c"),
		"/1 is not read now":   key("model=m batch=1", "a"), "another build": newer,
	} {
		if err := (&Folder{Dir: dir, Shards: 2, Key: k}).Claim(true); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), dir) {
			t.Errorf("%v; want an error with %q and the folder", err, want)
		}
		if k.Name() == f.Key.Name() {
			t.Errorf("a key that differs (%s) has the same name", want)
		}
	}
	testkit.Must(t, os.Remove(filepath.Join(dir, keyFile)))
	if err := f.Claim(true); err == nil || !strings.Contains(err.Error(), keyFile) {
		t.Errorf("shards without a key: %v", err)
	}
}

func TestParseShard(t *testing.T) {
	for _, x := range []struct{ text, slurm, kubernetes, want string }{
		{"2/8", "", "", "2/8"}, {"auto/8", "3", "", "3/8"}, {"auto/8", "", "0", "1/8"}, {"auto/8", "", "", ""}, {"auto/8", "9", "", ""},
		{"auto/8", "x", "", ""}, {"auto/", "1", "", ""}, {"3/2", "", "", ""},
	} {
		s, err := ParseShard(x.text, func(name string) string {
			return map[string]string{"SLURM_ARRAY_TASK_ID": x.slurm, "JOB_COMPLETION_INDEX": x.kubernetes}[name]
		})
		want, wrong := ParseShard(x.want, os.Getenv)
		if (err != nil) != (wrong != nil) || s != want && err == nil {
			t.Errorf("%+v: %v, %v", x, s, err)
		}
	}
}

func TestRanges(t *testing.T) {
	for want, all := range map[string][]int{"": nil, "4": {4}, "1-3": {1, 2, 3}, "1,3-4,9": {1, 3, 4, 9}} {
		if got := ranges(all); got != want {
			t.Errorf("%v: %s, want %s", all, got, want)
		}
	}
}

// A shell runs the words of the batch script as they are.
func TestScript(t *testing.T) {
	words := []string{"printf", `%s\n`, "a b", "it's", "$(x)", "--part=/a/b"}
	s := &Slurm{Folder: &Folder{Dir: t.TempDir()}, Command: words}
	out, err := exec.Command("sh", "-c", s.script()).Output()
	if want := strings.Join(words[2:], "\n") + "\n"; err != nil || string(out) != want {
		t.Errorf("%q, %v, want %q", out, err, want)
	}
}

// job has the properties of a Job that follow from a Pod.
type job struct {
	Kind string
	Spec struct {
		Completions          int
		CompletionMode       string
		BackoffLimitPerIndex int
		Template             struct{ Spec pod }
	}
}

type pod struct {
	RestartPolicy string
	Containers    []struct {
		Image, WorkingDir string
		Args              []string
		Resources         struct{ Limits map[string]int }
		VolumeMounts      []struct{ Name, MountPath string }
	}
	Volumes []struct {
		Name                  string
		PersistentVolumeClaim struct{ ClaimName string }
	}
}

// The manifest is a Job by Kubernetes' own schema.
func TestManifest(t *testing.T) {
	p := &Pod{
		Name: "llmprof-sweep-0a", Shards: 7, Image: "host:5000/llmprof:1", Claim: "work", GPUs: 2,
		Command: []string{"sweep", "--gpu", "h100", "--plot", `a "b" $(c)`, "--shard=auto/7"},
	}
	var job job
	kube.Decode(t, p.Manifest(), &job)
	spec, pod := &job.Spec, &job.Spec.Template.Spec
	if job.Kind != "Job" || spec.Completions != 7 || spec.CompletionMode != "Indexed" || spec.BackoffLimitPerIndex < 1 {
		t.Errorf("%+v", job)
	}
	c := pod.Containers[0]
	if pod.RestartPolicy != "Never" || c.Image != p.Image || c.Resources.Limits["nvidia.com/gpu"] != 2 ||
		c.VolumeMounts[0].Name != pod.Volumes[0].Name ||
		c.WorkingDir != c.VolumeMounts[0].MountPath || pod.Volumes[0].PersistentVolumeClaim.ClaimName != "work" {
		t.Errorf("%+v", pod)
	}
	want := slices.Clone(p.Command)
	want[4] = `a "b" $$(c)` // which Kubernetes passes on as $(c)
	if !slices.Equal(c.Args, want) {
		t.Errorf("%q, want %q", c.Args, want)
	}
}
