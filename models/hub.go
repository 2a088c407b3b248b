package models

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"llmprof/internal/input"
)

// DefaultEndpoint is the public Hugging Face hub.
const DefaultEndpoint = "https://huggingface.co"

const (
	maxConfig   = 8 << 20 // bytes; the largest real config.json is under 100 kB
	hubTimeout  = 20 * time.Second
	configFile  = "config.json"
	quantFile   = "hf_quant_config.json"
	mainBranch  = "main"
	maxRepoID   = 96 // characters, the hub's own limit
	maxRevision = 128
)

// A Hub is a Hugging Face hub together with the local cache of it. The cache
// has the layout of the official client, so that each finds what the other
// fetched (https://huggingface.co/docs/huggingface_hub/guides/manage-cache).
type Hub struct {
	Endpoint  string        // address of the hub; "" for DefaultEndpoint
	CacheDir  string        // holds the models--org--name directories; "" for no cache
	Token     Secret        // sent to Endpoint alone
	TokenFile string        // holds the token if Token is ""
	Offline   bool          // never use the network
	Timeout   time.Duration // longest time of a whole fetch; 0 for 20 s
	Client    *client       // nil for one that heeds HTTPS_PROXY and NO_PROXY
}

// errUnreachable marks a hub that did not answer at all, which says nothing
// about the repository asked for.
var errUnreachable = errors.New("the hub cannot be reached")

// fetched is a config.json as the hub sent it.
type fetched struct {
	config []byte
	quant  []byte // hf_quant_config.json, where the config names no quantization and there is one
	commit string // the repository's; "" if the hub did not say
	etag   string // the file's; "" if the hub did not say

	tensors Tensors // tensors of its safetensors files; nil where they were not read
}

// A Secret is a text that no formatting verb prints.
type Secret string

// Format writes that there is a secret, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) {
	if s != "" {
		_, _ = f.Write([]byte("(secret)"))
	}
}

// HubFromEnv is the hub that the environment describes, by the variables of the
// official client: HF_ENDPOINT, HF_HUB_CACHE, HF_HOME, HF_TOKEN, HF_TOKEN_PATH,
// HF_HUB_DISABLE_IMPLICIT_TOKEN and HF_HUB_OFFLINE
// (https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables).
func HubFromEnv(getenv func(string) string) Hub {
	first := func(names ...string) string {
		for _, n := range names {
			if v := strings.TrimSpace(getenv(n)); v != "" {
				return v
			}
		}
		return ""
	}
	user := first("HOME", "USERPROFILE")
	under := func(dir string, elem ...string) string {
		if dir == "" {
			return ""
		}
		if rest, ok := strings.CutPrefix(dir, "~"); ok && user != "" && (rest == "" || os.IsPathSeparator(rest[0])) {
			dir = user + rest
		}
		return filepath.Join(append([]string{dir}, elem...)...)
	}
	home := under(first("HF_HOME"))
	for _, dir := range []string{under(first("XDG_CACHE_HOME")), under(user, ".cache")} {
		home = cmp.Or(home, under(dir, "huggingface"))
	}
	h := Hub{
		Endpoint:  first("HF_ENDPOINT"),
		CacheDir:  cmp.Or(under(first("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")), under(home, "hub")),
		Token:     Secret(first("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")),
		TokenFile: cmp.Or(under(first("HF_TOKEN_PATH")), under(home, "token")),
		Offline:   isSet(first("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")),
	}
	if isSet(first("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
		h.Token, h.TokenFile = "", ""
	}
	return h
}

// isSet reads a switch as the official client does.
func isSet(s string) bool {
	return slices.Contains([]string{"1", "ON", "YES", "TRUE"}, strings.ToUpper(s))
}

// token is what to send to the endpoint, "" for nothing.
func (h Hub) token() (string, error) {
	token, from := string(h.Token), "HF_TOKEN"
	if token == "" && h.TokenFile != "" {
		data, err := input.ReadUnrecorded(h.TokenFile, 4096)
		if errors.Is(err, os.ErrNotExist) {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("reading the hub's token: %w", err)
		}
		token, from = strings.TrimSpace(string(data)), h.TokenFile
	}
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return "", fmt.Errorf("%s holds a character that no token of the hub has: copy the token again", from)
		}
	}
	return token, nil
}

// A HubID names a repository of the hub, after an "@" a revision of it, and after a ":" a GGUF file of it.
type HubID struct {
	Org, Name string
	Revision  string // branch, tag or commit
	File      string // name of a GGUF file, or the quantization in its name; "" for the safetensors
}

// The hub's rules for names (huggingface_hub, validate_repo_id).
var (
	hubName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?$`) })
	hubRev  = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*$`)
	})
	commitID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{40}$`) })
)

// ParseHubID reads "org/name", "org/name@revision" or, of a GGUF file, "org/name:Q4_K_M".
func ParseHubID(s string) (HubID, error) {
	whole, file, hasFile := strings.Cut(s, ":")
	if hasFile && (len(file) > maxRevision || !hubRev().MatchString(file) || strings.Contains(file, "..")) {
		return HubID{}, fmt.Errorf("%.160q: after ':' there must be a GGUF file, or a quantization such as Q4_K_M", s)
	}
	repo, rev, hasRev := strings.Cut(whole, "@")
	if !hasRev {
		rev = mainBranch
	}
	org, name, ok := strings.Cut(repo, "/")
	if !ok {
		return HubID{}, fmt.Errorf("%q is not a hub id: want org/name", s)
	}
	for _, part := range []string{org, name} {
		if !hubName().MatchString(part) || strings.Contains(part, "--") || strings.Contains(part, "..") {
			return HubID{}, fmt.Errorf("%q is not a hub id: %q must be letters, digits, '-', '_' and '.', "+
				"not begin or end with '-' or '.', nor hold two of them in a row", s, part)
		}
	}
	if len(repo) > maxRepoID || strings.HasSuffix(name, ".git") {
		return HubID{}, fmt.Errorf("%.120q is not a hub id: it has at most %d characters and does not end in .git", s, maxRepoID)
	}
	if len(rev) > maxRevision || !hubRev().MatchString(rev) || strings.Contains(rev, "..") {
		return HubID{}, fmt.Errorf("%.160q: the revision after '@' must be a branch, a tag or a commit", s)
	}
	return HubID{org, name, rev, file}, nil
}

// Repo is the id without the revision.
func (id HubID) Repo() string { return id.Org + "/" + id.Name }

// String is the id, with its revision if that is not the main branch.
func (id HubID) String() string {
	text := id.Repo()
	if id.Revision != mainBranch {
		text += "@" + id.Revision
	}
	if id.File != "" {
		text += ":" + id.File
	}
	return text
}
