package power

import (
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
