package power

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVisible(t *testing.T) {
	there := []string{"GPU-1a", "GPU-1b", "GPU-2c"}
	for _, test := range []struct {
		environment string // "-" for none
		asked       []string
		want        []string
		wrong       string
	}{
		{"-", nil, there, ""},
		{"2,0", nil, []string{"GPU-2c", "GPU-1a"}, ""},
		{"GPU-2,GPU-1b", nil, []string{"GPU-2c", "GPU-1b"}, ""},
		{"1,-1,0", nil, []string{"GPU-1b"}, ""},
		{"0,7,1", nil, []string{"GPU-1a"}, ""},
		{"2,0", []string{"0"}, []string{"GPU-2c"}, ""}, // numbers count among the visible
		{"2,0", []string{"GPU-1a"}, []string{"GPU-1a"}, ""},
		{"-", []string{"2", "GPU-1b"}, []string{"GPU-2c", "GPU-1b"}, ""},
		{"", nil, nil, "leaves none of 3"},
		{"-1", nil, nil, "leaves none of 3"},
		{"0,0", nil, nil, "twice"},
		{"MIG-7", nil, nil, "one sensor for all"},
		{"-", []string{"3"}, nil, "there are 3, from 0"},
		{"-", []string{"GPU-1"}, nil, "more than one UUID"},
		{"-", []string{"GPU-9"}, nil, "no GPU \"GPU-9\""},
		{"-", []string{"0", "GPU-1a"}, nil, "asked for twice"},
		{"-", []string{"MIG-1"}, nil, "name the board"},
		{"2", []string{"GPU-1a"}, nil, "no GPU \"GPU-1a\""},
	} {
		got, err := visible(there, test.environment, test.environment != "-", test.asked)
		if test.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("%q, %v: %v, want %q", test.environment, test.asked, err, test.wrong)
			}
			continue
		}
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%q, %v: %v (-want +got):\n%s", test.environment, test.asked, err, diff)
		}
	}
}

// Whatever CUDA_VISIBLE_DEVICES and --gpus hold, what is picked are GPUs that are there, each
// once, among those that CUDA leaves, or the error says why none is.
func FuzzVisible(f *testing.F) {
	there := []string{"GPU-4a52f0c1-0000", "GPU-4b000000-0001", "GPU-c0000000-0002"}
	for _, seed := range [][2]string{{"0,1", ""}, {"GPU-4", "1"}, {"GPU-4a,-1,2", "0"}, {"1,1", ""}, {"MIG-1", ""}, {"", "GPU-c"},
		{" 2 , 0", "1,0"}, {"99999999999999999999", "x"}} {
		f.Add(seed[0], true, seed[1])
	}
	f.Fuzz(func(t *testing.T, environment string, set bool, names string) {
		var asked []string
		if names != "" {
			asked = strings.Split(names, ",")
		}
		got, err := visible(there, environment, set, asked)
		if err != nil {
			if len(got) > 0 || err.Error() == "" {
				t.Fatalf("%v and %v", got, err)
			}
			return
		}
		left := there
		if set {
			if left, err = masked(there, environment); err != nil {
				t.Fatal(err)
			}
		}
		if len(got) == 0 || len(asked) > 0 && len(got) != len(asked) {
			t.Fatalf("%d GPUs of %q, %q", len(got), environment, asked)
		}
		for i, uuid := range got {
			if !slices.Contains(left, uuid) || slices.Contains(got[:i], uuid) {
				t.Fatalf("%v of %v", got, left)
			}
		}
	})
}
