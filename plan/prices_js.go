package plan

import (
	"errors"

	"llmprof/hardware"
)

// readPrices reads no files on a page.
func readPrices(string, *hardware.Table) (map[string][]Offer, error) {
	return nil, errors.New("a page reads no lists of prices")
}
