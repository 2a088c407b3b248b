package models

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// fromHub reads a model by its hub id: from the hub's local cache, else from
// the hub. Where there is no network, a built-in model of that id serves.
func (r Resolver) fromHub(ctx context.Context, name string) (*Model, error) {
	id, err := ParseHubID(name)
	if err != nil {
		return nil, err
	}
	commit, err := r.Hub.commit(id)
	if err != nil {
		return nil, err
	}
	config, path, err := r.Hub.cached(id, commit)
	if err != nil {
		return nil, err
	}
	if config != nil {
		return readBeside(id.String(), path, config, r.Lenient)
	}
	if r.Hub.Offline {
		return r.offline(id)
	}
	m, err := r.fromNetwork(ctx, id, commit)
	if err == nil {
		return m, nil
	}
	builtin, known := r.builtin(id)
	switch {
	case !known || ctx.Err() != nil:
		return nil, err
	case errors.Is(err, errUnreachable):
		return r.instead(id, builtin, "the hub did not answer")
	}
	return nil, fmt.Errorf("%w; or take the built-in model %s, which is of that repository", err, builtin)
}

// fromNetwork fetches the config.json and leaves it in the cache. A revision
// that the cache knows is fetched at the commit it knows: to move it would part
// it from the weights that are cached with it.
func (r Resolver) fromNetwork(ctx context.Context, id HubID, commit string) (*Model, error) {
	at := id
	if commit != "" {
		at.Revision = commit
	}
	f, err := r.Hub.fetch(ctx, at)
	if err != nil {
		return nil, err
	}
	if f.commit == "" && commit != "" {
		f.commit = commit
	}
	source := r.Hub.page(id, f.commit)
	if err := r.Hub.store(at, f); err != nil {
		source += fmt.Sprintf(" (not cached: %v)", err)
	}
	return read(id.String(), source, Checkpoint{Config: f.config, Quant: f.quant, Lenient: r.Lenient})
}

// page is the address at which a person reads the file.
func (h Hub) page(id HubID, commit string) string {
	endpoint := h.Endpoint
	if endpoint == "" {
		endpoint = DefaultEndpoint
	}
	if commit == "" {
		commit = id.Revision
	}
	return fmt.Sprintf("%s/%s/blob/%s/%s", strings.TrimRight(endpoint, "/"), id.Repo(), commit, configFile)
}

// builtin is the name of the built-in model that has the id as an alias. The
// table knows the main branch only.
func (r Resolver) builtin(id HubID) (string, bool) {
	if id.Revision != mainBranch {
		return "", false
	}
	return r.Table.Lookup(id.Repo())
}

// offline serves a hub id that the cache does not have without the network.
func (r Resolver) offline(id HubID) (*Model, error) {
	if builtin, ok := r.builtin(id); ok {
		return r.instead(id, builtin, "offline")
	}
	where := "there is no hub cache"
	if r.Hub.CacheDir != "" {
		where = "it is not in the hub cache " + r.Hub.CacheDir
	}
	return nil, fmt.Errorf("%s: %s, and the network is not used (--offline or HF_HUB_OFFLINE): "+
		"run once without, or give its config.json", id, where)
}

// instead reads the built-in model that stands in for a hub id, and says so.
func (r Resolver) instead(id HubID, builtin, why string) (*Model, error) {
	m, err := r.Table.Model(builtin)
	if err != nil {
		return nil, err
	}
	m.Name = id.String()
	m.Source = fmt.Sprintf("built-in model %s, for %s is not in the hub cache (%s); %s", builtin, id, why, m.Source)
	return m, nil
}

// HubConfig is the config.json of a hub id: from the hub's local cache, else from the hub.
func (r Resolver) HubConfig(ctx context.Context, name string) ([]byte, error) {
	id, err := ParseHubID(name)
	if err != nil {
		return nil, err
	}
	commit, err := r.Hub.commit(id)
	if err != nil {
		return nil, err
	}
	if config, _, err := r.Hub.cached(id, commit); config != nil || err != nil {
		return config, err
	}
	if r.Hub.Offline {
		return nil, fmt.Errorf("%s is not in the hub cache, and the network is not used (--offline or HF_HUB_OFFLINE)", id)
	}
	at := id
	if commit != "" {
		at.Revision = commit
	}
	f, err := r.Hub.fetch(ctx, at)
	return f.config, err
}
