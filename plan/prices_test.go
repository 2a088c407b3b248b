package plan

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmprof/hardware"
	"llmprof/internal/testkit"
)

// TestPriceMistakes holds lists of prices that may mean something else than they say to refusals.
func TestPriceMistakes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "prices.csv")
	for text, want := range map[string]string{
		"gpu,usd_per_hour,usd_per_hour\nh100,1,2\n":                     `two columns "usd_per_hour"`,
		"gpu,usd_per_hour,GPU\nh100,1,l4\n":                             `two columns "GPU"`,
		"gpu,usd_per_hour\nh100,1,250\n":                                "3 cells below 2 columns",
		"gpu,usd_per_hour\nh100,NaN\n":                                  "no price",
		"gpu,usd_per_hour\nh100,0\n":                                    "want dollars",
		"gpu,usd_per_hour\nh100,2.5\nl4,\"0.":                           "line 3",
		"gpu,usd_per_hour\n" + strings.Repeat("h100,1\n", mostPrices+1): "more than 1048576 prices",
	} {
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := readPrices(path, &hardware.Table{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
}
