package experiment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"

	"llmprof/redact"
)

// Canonical is the point as JSON with its keys sorted and the settings that are
// zero left out, so that neither the form of a file nor a setting that is added
// to this program later changes it.
//
// Secrets are left out: a renewed key does not make another point.
func (p *Point) Canonical() ([]byte, error) {
	set := map[string]any{}
	shown := p.Shown()
	for _, key := range settingKeys {
		v := shown.field(key)
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

// Shown is the point without the secrets of its URL and command.
func (p *Point) Shown() Point {
	shown := *p
	shown.BaseURL, shown.EngineCmd = redact.Text(p.BaseURL), redact.Text(p.EngineCmd)
	return shown
}

// secrets knows those of the point's URL and command.
func (p *Point) secrets() redact.Redactor { return redact.Of(p.BaseURL, p.EngineCmd) }

// Hash is the SHA-256 of the canonical settings, in hexadecimal.
func (p *Point) Hash() (string, error) {
	text, err := p.Canonical()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
