package models

import (
	"context"
	"fmt"
)

// client is nothing: a page asks no hub.
type client struct{}

func (h Hub) fetch(_ context.Context, id HubID) (fetched, error) {
	return fetched{}, fmt.Errorf("fetching %s: %w: a page asks no hub", id, errUnreachable)
}
