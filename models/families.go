package models

import _ "embed"

// families lists every family that is understood.
func families() []family {
	return concat(llamas(), classics(), gemmas(), mixtures(), latents(), scans(), hybrids(), singular(), remotes(), sharers(), linears(), lates(), news())
}

func concat(lists ...[]family) []family {
	var all []family
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// nestedJSON holds what the configuration classes of transformers 5.17 assume,
// by model_type.
//
//go:embed nested.json
var nestedJSON []byte

// nestedDefaults is what a class assumes for a decoder inside a wrapper, of
// which only the difference from these is written.
func nestedDefaults(d decoder) (map[string]any, error) {
	if !d.nested {
		return nil, nil
	}
	all, err := parseConfig(nestedJSON)
	if err != nil {
		return nil, err
	}
	object, _ := all[d.modelType].(map[string]any)
	return object, nil
}
