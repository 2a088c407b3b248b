package models

import (
	"maps"
	"slices"
	"testing"
)

// TestSchemeAliases checks that the names people give a quantization find it, and that
// every alias stands for a scheme.
func TestSchemeAliases(t *testing.T) {
	for alias, name := range map[string]string{
		"awq": "w4a16-g128", "GPTQ": "w4a16-g128", "gptq_marlin": "w4a16-g128", "smoothquant": "w8a8", "half": "fp16", "F16": "fp16", "f32": "fp32", "fp8_e4m3": "fp8", "W4A16_G64": "w4a16-g64",
	} {
		if s, err := ParseScheme(alias); err != nil || s.Name != name {
			t.Errorf("ParseScheme(%q) = %q, %v; want %q", alias, s.Name, err, name)
		}
	}
	for _, alias := range slices.Collect(maps.Keys(schemeAliases)) {
		if _, err := ParseScheme(alias); err != nil {
			t.Errorf("the alias %s: %v", alias, err)
		}
	}
	if s, err := ParseScheme("w5a5"); err == nil {
		t.Errorf("w5a5 is %s", s.Name)
	}
}
