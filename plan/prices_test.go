package plan

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
		if len(text) > 1<<20 && testkit.Cases(0, 1) == 0 {
			continue
		}
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := readPrices(path, &hardware.Table{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
}

// TestCatalogues reads lists as they are published: of SkyPilot's names without a memory the smaller GPU, and its price of spot instances.
func TestCatalogues(t *testing.T) {
	table, err := library().GPUs("")
	testkit.Must(t, err)
	path := filepath.Join(t.TempDir(), "prices.csv")
	for text, want := range map[string]string{
		"InstanceType,AcceleratorName,AcceleratorCount,Price,SpotPrice,Region\np4d,A100,8.0,32,8,us\np4de,A100-80GB,8.0,40,,us\n": "" +
			"a100-sxm-40gb $4.00/h on-demand 8; a100-sxm-40gb $1.00/h spot 8; a100-sxm-80gb $5.00/h on-demand 8; ",
		"instance_name,location,price,gpu_count,gpu_name,gpu_memory,spot\np5,us,80,8,H100,80,False\np5,us,24,8,H100,80,True\n": "" +
			"h100-sxm-80gb $10.00/h on-demand 8; h100-sxm-80gb $3.00/h spot 8; ",
		"gpu,usd_per_hour,node,term\nh100,2,8,reserved\n": "h100-sxm-80gb $2.00/h reserved 8; ",
	} {
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		all, err := readPrices(path, table)
		testkit.Must(t, err)
		got := ""
		for _, key := range slices.Sorted(maps.Keys(all)) {
			for _, o := range all[key] {
				got += fmt.Sprintf("%s %v %s %d; ", key, o.Hour, o.Term, o.Node)
			}
		}
		if got != want {
			t.Errorf("%.40q is read as %q, want %q", text, got, want)
		}
	}
}
