package hardware

import "errors"

// ReadPrices reads no files on a page.
func (t *Table) ReadPrices(string) (*Prices, error) {
	return nil, errors.New("a page reads no lists of prices")
}
