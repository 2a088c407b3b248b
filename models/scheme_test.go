package models

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestSchemeAliases checks that the names people give a quantization find it, and that
// every alias stands for a scheme.
func TestSchemeAliases(t *testing.T) {
	for alias, name := range map[string]string{
		"awq": "w4a16-g128", "GPTQ": "w4a16-g128", "gptq_marlin": "w4a16-g128", "smoothquant": "w8a8", "half": "fp16", "F16": "fp16",
		"f32": "fp32", "fp8_e4m3": "fp8", "W4A16_G64": "w4a16-g64",
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
	for name, want := range map[string]string{"fp88": `did you mean "fp8"`, "awk": `did you mean "awq"`, "q4_k_mm": `did you mean "q4_k_m"`,
		"w5a5xyz": "(known: w16a16"} {
		if _, err := ParseScheme(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v: want one with %s", name, err, want)
		}
	}
	if _, err := ParseScheme("q4_k_m"); err == nil || !strings.HasPrefix(err.Error(), `"q4_k_m" is a quantization of llama.cpp`) {
		t.Errorf("a mix of formats where one is asked for: %v", err)
	}
}

// TestNamedScheme asks for the quantization that a checkpoint has, and for another of the same format.
func TestNamedScheme(t *testing.T) {
	for _, x := range []struct {
		model, name string
		stored      bool
	}{
		{"gpt-oss-20b", "mxfp4", true}, {"gpt-oss-20b", "MXFP4", true}, {"gpt-oss-20b", "w4a4-mxfp4", false}, {"gpt-oss-20b", "fp8", false},
		{"deepseek-v3", "fp8-block", true}, {"deepseek-v3", "fp8", true}, {"deepseek-v3", "w8a16-fp8", false},
	} {
		m := published(t, x.model)
		s, err := NamedScheme(m, x.name)
		if err != nil {
			t.Fatal(err)
		}
		if is := s == StoredScheme(m); is != x.stored {
			t.Errorf("%s in %s is %+v, its checkpoint %+v", x.model, x.name, s, StoredScheme(m))
		}
	}
	if _, err := NamedScheme(published(t, "deepseek-v3"), "fp7"); err == nil {
		t.Error("fp7 is a scheme")
	}
}
