// Package redact takes secrets out of texts before they are stored, printed or
// logged: users, passwords and queries in URLs, values of flags and variables
// whose names say that they are secret, and keys that are known by their form.
package redact

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Mark stands where a secret was.
const Mark = "***"

// A Redactor also knows secrets by heart, and finds them wherever they are
// repeated: a server's log names its key without saying what it is. The zero
// Redactor knows none.
type Redactor struct{ secrets []string }

// shortest is the length from which on a secret is looked for everywhere; shorter
// ones are parts of words.
const shortest = 6

// Of knows the secrets of some texts, such as URLs and commands.
func Of(texts ...string) Redactor {
	var r Redactor
	for _, text := range texts {
		rewrite(text, func(secret string) {
			secret = strings.Trim(secret, `"'`)
			plain, err := url.PathUnescape(secret)
			for _, s := range []string{secret, plain} {
				if err == nil && len(s) >= shortest && !slices.Contains(r.secrets, s) {
					r.secrets = append(r.secrets, s)
				}
			}
		})
	}
	slices.SortFunc(r.secrets, func(a, b string) int { return len(b) - len(a) }) // one may be a part of another
	return r
}

// Text is a text of any kind without its secrets.
func Text(text string) string { return Redactor{}.Text(text) }

// Text is a text of any kind without its secrets.
func (r Redactor) Text(text string) string {
	text = rewrite(text, func(string) {})
	for _, s := range r.secrets {
		text = strings.ReplaceAll(text, s, Mark)
	}
	return text
}

// Words are those of a command line without their secrets.
func (r Redactor) Words(words []string) []string {
	out := make([]string, len(words))
	follows := false // the word is the value of the flag before it
	for i, word := range words {
		name, _, assigned := strings.Cut(word, "=")
		switch {
		case follows && !strings.HasPrefix(word, "-"):
			out[i] = Mark
		case assigned && !strings.ContainsAny(name, " :/") && secretName(name):
			out[i] = name + "=" + Mark
		default:
			out[i] = r.Text(word)
		}
		follows = !assigned && strings.HasPrefix(word, "-") && secretName(word)
	}
	return out
}

// Error is an error whose text has no secrets. What it wraps stays to be asked for.
func (r Redactor) Error(err error) error {
	if err == nil {
		return nil
	}
	if text := r.Text(err.Error()); text != err.Error() {
		return redacted{err, text}
	}
	return err
}

type redacted struct {
	error
	text string
}

func (r redacted) Error() string { return r.text }

func (r redacted) Unwrap() error { return r.error }

var (
	address = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("[a-zA-Z][a-zA-Z0-9+.-]*://[^\\s\"'<>`]+") })
	header  = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)\b(authorization["']?\s*[:=]\s*["']?(?:(?:bearer|basic)\s+)?|bearer\s+)([A-Za-z0-9._~+/=-]{6,})`)
	})
	assign = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)(-{0,2}[a-z][a-z0-9_.-]*)(["']?\s*[=:]\s*\[?\s*)`)
	}) // a value follows
	// A flag of a command line, whose value follows.
	flag  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)(--?[a-z][a-z0-9_-]*)(\s+)`) })
	known = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\b(sk-[A-Za-z0-9_-]{8,}|hf_[A-Za-z0-9]{20,}|nvapi-[A-Za-z0-9_-]{8,}|gh[pousr]_[A-Za-z0-9]{16,` +
			`}|AKIA[0-9A-Z]{12,}|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_.-]+)`)
	})
)

// rewrite replaces secrets by the mark and calls found for each.
func rewrite(text string, found func(secret string)) string {
	if len(text) < shortest {
		return text
	}
	hide := func(secret string) string {
		if secret != Mark && secret != "" {
			found(secret)
		}
		return Mark
	}
	text = address().ReplaceAllStringFunc(text, func(u string) string {
		bare := strings.TrimRight(u, ".,:;)") // The punctuation is the sentence's.
		return rewriteURL(bare, hide) + u[len(bare):]
	})
	text = replace(header(), text, func(m []string) string {
		if scheme := strings.ToLower(m[2]); scheme == "bearer" || scheme == "basic" { // The scheme's secret is hidden already.
			return m[0]
		}
		return m[1] + hide(m[2])
	})
	text = values(assign(), text, assigned, hide)
	text = values(flag(), text, func(name, _, value string) bool {
		return secretName(name) && !strings.HasPrefix(value, "-") && !number().MatchString(value)
	}, hide)
	return known().ReplaceAllStringFunc(text, hide)
}

func replace(pattern *regexp.Regexp, text string, with func(match []string) string) string {
	return pattern.ReplaceAllStringFunc(text, func(s string) string { return with(pattern.FindStringSubmatch(s)) })
}

// values hides what follows each match of a name and a sign, where secret says so.
// It goes on behind the sign otherwise: the value may be a command with secrets.
func values(pattern *regexp.Regexp, text string, secret func(name, sign, value string) bool, hide func(string) string) string {
	var b strings.Builder
	done := 0
	for _, at := range pattern.FindAllStringSubmatchIndex(text, -1) {
		if at[0] < done {
			continue
		}
		name, sign := text[at[2]:at[3]], text[at[4]:at[5]]
		if !secretName(name) { // first, for values are long
			continue
		}
		value, end := valueAt(text, at[1])
		if value == "" || value == Mark || !secret(name, sign, text[at[1]:end]) {
			continue
		}
		b.WriteString(text[done:at[1]])
		b.WriteString(strings.Replace(text[at[1]:end], value, hide(value), 1))
		done = end
	}
	b.WriteString(text[done:])
	return b.String()
}

// valueAt is the value that begins at i, without its quotes, and where it ends.
func valueAt(text string, i int) (value string, end int) {
	rest := text[i:]
	if rest == "" {
		return "", i
	}
	if q := rest[0]; q == '"' || q == '\'' {
		if n := strings.IndexByte(rest[1:], q); n >= 0 {
			return rest[1 : 1+n], i + n + 2
		}
		return rest[1:], len(text)
	}
	n := strings.IndexAny(rest, " \t\r\n\"',;&])}")
	if n < 0 {
		n = len(rest)
	}
	return rest[:n], i + n
}

var number = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9.]+$`) })

// assigned reports whether "name=value" gives a secret. A colon is in sentences
// too, so that what follows it has to look like a value.
func assigned(name, sign, value string) bool {
	if !secretName(name) || number().MatchString(value) && !strings.Contains(strings.ToLower(name), "pass") {
		return false
	}
	if strings.ToLower(strings.TrimLeft(name, "-")) == "key" && name[0] != '-' {
		return false
	}
	return strings.Contains(sign, "=") || value[0] == '"' || value[0] == '\'' || len(value) >= 8 && strings.ContainsAny(value, "0123456789")
}

// secretName reports whether a flag or a variable of that name has a secret. Tokens
// in the plural are counted, not kept.
func secretName(name string) bool {
	parts := strings.FieldsFunc(strings.ToLower(name), func(c rune) bool { return c == '-' || c == '_' || c == '.' })
	return slices.ContainsFunc(parts, func(part string) bool {
		switch part {
		case "key", "apikey", "token", "apitoken", "accesstoken", "secret", "password", "passwd", "pwd", "pass", "passphrase",
			"credential", "credentials", "auth", "authorization":
			return true
		}
		return false
	})
}

// public are the names in queries whose values say which service answers.
var public = []string{"api-version", "version", "model", "deployment"}

// rewriteURL hides what is before an @, and the values of the query.
func rewriteURL(u string, hide func(string) string) string {
	scheme, rest, _ := strings.Cut(u, "://")
	rest, query, hasQuery := strings.Cut(rest, "?")
	host, _, _ := strings.Cut(rest, "/")
	at := strings.LastIndexByte(host, '@')
	if _, port, ok := strings.Cut(host, ":"); at < 0 && ok && strings.Trim(port, "0123456789") != "" && !strings.HasPrefix(host, "[") {
		at = strings.LastIndexByte(rest, '@') // a "/" in the password
	}
	if at >= 0 {
		_, password, ok := strings.Cut(rest[:at], ":")
		if !ok {
			password = rest[:at]
		}
		rest = hide(password) + "@" + rest[at+1:]
	}
	u = scheme + "://" + rest
	if !hasQuery {
		return u
	}
	query, _, _ = strings.Cut(query, "#")
	var kept []string
	for _, pair := range strings.FieldsFunc(query, func(c rune) bool { return c == '&' || c == ';' }) {
		name, value, ok := strings.Cut(pair, "=")
		switch {
		case !ok:
			kept = append(kept, hide(pair))
		case slices.Contains(public, strings.ToLower(name)):
			kept = append(kept, pair)
		default:
			kept = append(kept, name+"="+hide(value))
		}
	}
	return u + "?" + strings.Join(kept, "&")
}
