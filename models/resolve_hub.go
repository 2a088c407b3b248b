package models

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"llmprof/internal/input"
)

// fromHub reads a model by its hub id: from the hub's local cache, else from
// the hub. Where there is no network, a built-in model of that id serves.
func (r Resolver) fromHub(ctx context.Context, name string) (*Model, error) {
	id, commit, config, path, err := r.inCache(name)
	if err != nil {
		return nil, err
	}
	if id.File != "" {
		return r.ggufFromHub(ctx, id, commit)
	}
	if config != nil {
		m, err := readBeside(id.String(), path, config, r.Lenient)
		if err == nil || r.Hub.Offline || !errors.Is(err, errUnknownFamily) {
			return m, err
		}
		tensors, errTensors := r.Hub.tensors(ctx, id.at(commit))
		if errTensors != nil {
			return nil, fmt.Errorf("%w; its tensors, which may tell its shape, were not read: %w", err, errTensors)
		}
		return read(id.String(), path, Checkpoint{Config: config, Tensors: tensors, Lenient: r.Lenient})
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

// inCache finds a hub id in the hub's local cache: the commit that it knows, and the config.json with its path, if they are there.
func (r Resolver) inCache(name string) (id HubID, commit string, config []byte, path string, err error) {
	if id, err = ParseHubID(name); err != nil {
		return id, "", nil, "", err
	}
	if commit, err = r.Hub.commit(id); err == nil {
		config, path, err = r.Hub.cached(id, commit)
	}
	return id, commit, config, path, err
}

// at is a hub id at the commit that the cache knows, if it knows one.
func (id HubID) at(commit string) HubID {
	if commit != "" {
		id.Revision = commit
	}
	return id
}

// fromNetwork fetches the config.json and leaves it in the cache. A revision
// that the cache knows is fetched at the commit it knows: to move it would part
// it from the weights that are cached with it.
func (r Resolver) fromNetwork(ctx context.Context, id HubID, commit string) (*Model, error) {
	f, err := r.Hub.fetch(ctx, id.at(commit))
	if err != nil {
		return nil, err
	}
	if f.commit == "" && commit != "" {
		f.commit = commit
	}
	source := r.Hub.page(id, f.commit)
	input.Note(source, f.config) // in the order in which they are read from the cache
	if f.quant != nil {
		input.Note(source+" "+quantFile, f.quant)
	}
	var unread error
	if f.tensors, unread = r.Hub.tensors(ctx, id.at(cmp.Or(f.commit, commit))); ctx.Err() != nil {
		return nil, unread
	}
	if err := r.Hub.store(id.at(commit), f); err != nil {
		source += fmt.Sprintf(" (not cached: %v)", err)
	}
	m, err := read(id.String(), source, Checkpoint{Config: f.config, Quant: f.quant, Tensors: f.tensors, Lenient: r.Lenient})
	if err == nil && unread != nil && !errors.Is(unread, errNoTensors) {
		m.Notes = append(m.Notes, fmt.Sprintf("the bytes of the weights are those that config.json makes, as the headers of its safetensors "+
			"files were not read: %v", unread))
	}
	return m, err
}

// errNoTensors is of a repository without safetensors files.
var errNoTensors = errors.New("it has no safetensors files")

// ggufFromHub reads the headers of a GGUF file: from the hub's local cache, else from the hub, which sends no weights.
func (r Resolver) ggufFromHub(ctx context.Context, id HubID, commit string) (*Model, error) {
	if path := r.Hub.cachedGGUF(id, commit); path != "" {
		return fromGGUF(path)
	}
	if r.Hub.Offline {
		return nil, fmt.Errorf("%s is not in the hub cache, and the network is not used (--offline or HF_HUB_OFFLINE)", id)
	}
	file, headers, err := r.Hub.gguf(ctx, id.at(commit))
	if err != nil {
		return nil, err
	}
	m, err := ReadGGUF(id.String(), headers...)
	if err != nil {
		return nil, err
	}
	m.Source = strings.TrimSuffix(r.Hub.page(id, commit), configFile) + file
	return m, nil
}

// page is the address at which a person reads the file.
func (h Hub) page(id HubID, commit string) string {
	endpoint := strings.TrimRight(cmp.Or(h.Endpoint, DefaultEndpoint), "/")
	return fmt.Sprintf("%s/%s/blob/%s/%s", endpoint, id.Repo(), cmp.Or(commit, id.Revision), configFile)
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
	id, commit, config, _, err := r.inCache(name)
	if config != nil || err != nil {
		return config, err
	}
	if r.Hub.Offline {
		return nil, fmt.Errorf("%s is not in the hub cache, and the network is not used (--offline or HF_HUB_OFFLINE)", id)
	}
	f, err := r.Hub.fetch(ctx, id.at(commit))
	return f.config, err
}
