package experiment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
)

// Canonical is the point as JSON with its keys sorted and the settings that are
// zero left out, so that neither the form of a file nor a setting that is added
// to this program later changes it.
func (p *Point) Canonical() ([]byte, error) {
	set := map[string]any{}
	for _, key := range settingKeys {
		v := p.field(key)
		if v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0 {
			continue
		}
		set[key] = v.Interface()
	}
	text, err := json.Marshal(set) // sorts the keys
	if err != nil {
		return nil, fmt.Errorf("settings of %s: %w", p.Model, err)
	}
	return text, nil
}

// Hash is the SHA-256 of the canonical settings, in hexadecimal.
func (p *Point) Hash() (string, error) {
	text, err := p.Canonical()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
