package ask

import (
	"testing"

	"github.com/spf13/pflag"

	"llmprof/hardware"
)

// A watermark of 0 that is given replaces the scheduler's.
func TestRulesTakeAWatermarkOfZero(t *testing.T) {
	for _, x := range []struct {
		flags []string
		want  float64
	}{{nil, 0.01}, {[]string{"--watermark=0"}, 0}, {[]string{"--watermark=0.05"}, 0.05}} {
		var s Service
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		s.Flags(f)
		if err := f.Parse(append(x.flags, "--scheduler=vllm-2024")); err != nil {
			t.Fatal(err)
		}
		r, err := s.rules("vllm", &hardware.GPU{}, 0, f.Changed)
		if err != nil || r.Watermark != x.want {
			t.Errorf("%v: a watermark of %g (%v), want %g", x.flags, r.Watermark, err, x.want)
		}
	}
}
