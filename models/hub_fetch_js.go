package models

import (
	"context"
	"fmt"

	"llmprof/models/gguf"
)

// client is nothing: a page asks no hub.
type client struct{}

func (h Hub) fetch(_ context.Context, id HubID) (fetched, error) {
	return fetched{}, fmt.Errorf("fetching %s: %w: a page asks no hub", id, errUnreachable)
}

func (h Hub) tensors(_ context.Context, id HubID) (Tensors, error) {
	return nil, fmt.Errorf("fetching %s: %w: a page asks no hub", id, errUnreachable)
}

func (h Hub) gguf(_ context.Context, id HubID) (string, []*gguf.Header, error) {
	return "", nil, fmt.Errorf("fetching %s: %w: a page asks no hub", id, errUnreachable)
}
