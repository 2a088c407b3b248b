package tables

import (
	"os"
	"path/filepath"
	"testing"

	"llmprof/hardware"
	"llmprof/internal/testkit"
)

// The header of a distribution's METADATA may have folded lines, and what is behind it is no header.
func TestSourceOfADistribution(t *testing.T) {
	want := hardware.Tables{Package: "operator-tables", Version: "1.2", Licence: "Apache-2.0"}
	for name, text := range map[string]string{
		"an expression":  "Metadata-Version: 2.4\nName: operator-tables\nVersion: 1.2\nLicense-Expression: Apache-2.0\n\nName: other\n",
		"a folded field": "Name: operator-tables\nSummary: times of\n  operators\nVersion: 1.2\nLicense: Apache-2.0\n",
	} {
		dir := t.TempDir()
		data := filepath.Join(dir, "operator_tables", "data")
		testkit.Must(t, os.MkdirAll(data, 0o755))
		testkit.Must(t, os.Mkdir(filepath.Join(dir, "operator_tables-1.2.dist-info"), 0o755))
		testkit.Must(t, os.WriteFile(filepath.Join(dir, "operator_tables-1.2.dist-info", "METADATA"), []byte(text), 0o600))
		if got, err := Source(data, ""); err != nil || got.Package != want.Package || got.Version != want.Version || got.Licence != want.Licence {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
