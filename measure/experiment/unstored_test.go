package experiment

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/measure/result"
)

// TestUnstored breaks the folder of results while something is measured: nothing more is, and what was comes back, whether it
// was finished or not.
func TestUnstored(t *testing.T) {
	trials, err := dozen()
	testkit.Must(t, err)
	for name, failure := range map[string]error{"finished": nil, "failed": errors.New("the engine ended")} {
		for _, several := range []bool{false, true} {
			store := Store{filepath.Join(t.TempDir(), "results")}
			measured := 0
			measure := single(func(_ context.Context, p Point) (*result.Result, error) {
				if measured++; measured == 2 {
					testkit.Must(t, os.RemoveAll(store.Dir))
					testkit.Must(t, os.WriteFile(store.Dir, nil, 0o644))
				}
				r, err := fixture(p)
				if measured == 2 && err == nil {
					err = failure
				}
				return r, err
			})
			var all []*result.Result
			if several {
				var points []Point
				for i := range trials {
					points = append(points, trials[i].Point)
				}
				all, err = Several(t.Context(), points, measure, &store, nil)
			} else {
				_, err = Run(t.Context(), trials, measure, Options{Store: store})
			}
			lost := &UnstoredError{}
			if measured != 2 || !errors.As(err, &lost) || len(lost.Results) != 1 || lost.Results[0].Workload.Seed != 1 || lost.Results[0].ID == "" {
				t.Errorf("%s, several %v: %d measured, %d lost, %v", name, several, measured, len(lost.Results), err)
			}
			if several && len(all) != 2 {
				t.Errorf("%s: %d results, want those of both", name, len(all))
			}
		}
	}
}

// Measurements of the same second and settings replace no result of each other.
func TestMeasurementsOfOneSecond(t *testing.T) {
	trials, err := dozen()
	testkit.Must(t, err)
	store := Store{filepath.Join(t.TempDir(), "results")}
	measure := single(func(_ context.Context, p Point) (*result.Result, error) { return fixture(p) })
	for range 3 {
		_, err := Several(t.Context(), []Point{trials[0].Point}, measure, &store, nil)
		testkit.Must(t, err)
	}
	if all, err := result.ReadFolder(store.Dir); err != nil || len(all) != 3 {
		t.Errorf("%d results of 3 measurements: %v", len(all), err)
	}
}
