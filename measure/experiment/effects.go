package experiment

import (
	"fmt"
	"net"
	"net/url"
	"slices"
)

// Effects says, a line each, what running points does beside measuring: the commands and the
// code that it executes, and where it sends requests, with the key of a variable where that is
// set. The file may come from somebody else than who runs it.
func Effects(points []Point, variable string, set bool) []string {
	var lines []string
	add := func(format string, args ...any) {
		if line := fmt.Sprintf(format, args...); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	for i := range points {
		p := &points[i]
		if p.EngineCmd != "" {
			add("it will execute %q", p.EngineCmd)
		}
		if p.Engine == Transformers {
			if p.Python == "" {
				add("it will execute python3, or python, of PATH")
			} else {
				add("it will execute %q", p.Python)
			}
		}
		if p.TrustRemoteCode {
			add("it will execute the Python code that the model %q brings (trust_remote_code)", p.Model)
		}
		if p.Engine != OpenAI {
			continue
		}
		where, open := destination(p.BaseURL)
		switch {
		case !set:
			add("it will send requests to %s, with no key of %s", where, variable)
		case open:
			add("it will send the key of %s to %s, which others on the way can read: http is not encrypted", variable, where)
		default:
			add("it will send the key of %s to %s", variable, where)
		}
	}
	return lines
}

// destination is where a base URL leads, without what may be secret in it, and whether others
// can read what is sent there.
func destination(base string) (where string, open bool) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return "a base_url that is no URL", true
	}
	ip := net.ParseIP(u.Hostname())
	local := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	return fmt.Sprintf("%q", u.Scheme+"://"+u.Host), u.Scheme != "https" && !local
}
