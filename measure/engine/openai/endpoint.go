package openai

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// An endpoint is where requests go, and what may be said of it.
type endpoint struct {
	post   string // the whole URL
	base   *url.URL
	public string // the base without user, query and fragment
}

// newEndpoint reads a base URL. One without a path is taken to mean /v1, where
// all the servers have the API; one that names the API's path already is taken
// as it is.
func newEndpoint(base, api string) (*endpoint, error) {
	u, err := url.Parse(strings.TrimSpace(base))
	switch {
	case err != nil:
		// The parser's error would repeat parts of what may be a password.
		return nil, errors.New("the base URL cannot be read: want http://HOST:PORT/v1, and what is special in a user's name or password as %XX")
	case u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "":
		return nil, errors.New(`the base URL does not begin with "http://" or "https://"`)
	case u.Hostname() == "":
		return nil, errors.New("the base URL names no host: want http://HOST:PORT/v1")
	}
	u.Fragment, u.RawFragment = "", ""
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	for _, tail := range []string{"/chat/completions", "/completions"} {
		if rest, ok := strings.CutSuffix(u.Path, tail); ok {
			if (tail == "/chat/completions") != (api == Chat) {
				return nil, fmt.Errorf("the base URL ends in %s, which is not of the %s API", tail, api)
			}
			u.Path, u.RawPath = rest, strings.TrimSuffix(u.RawPath, tail)
			return finish(u, tail), nil
		}
	}
	if u.Path == "" {
		u.Path = "/v1"
	}
	if api == Chat {
		return finish(u, "/chat/completions"), nil
	}
	return finish(u, "/completions"), nil
}

func finish(base *url.URL, path string) *endpoint {
	public := *base
	public.User, public.RawQuery, public.ForceQuery = nil, "", false
	return &endpoint{post: base.JoinPath(path).String(), base: base, public: public.String()}
}
