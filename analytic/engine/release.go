package engine

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"llmprof/analytic"
)

// releases says on which releases of an engine its constants were measured, and what others do otherwise.
type releases struct {
	// Releases whose operators or steps were timed, that of the constants first; "0.24" is 0.24.0 and 0.24.1 too.
	timed []string
	// traced are the releases of which whole models were measured, with the patches that traces of them gave, and the generation of GPUs.
	traced map[string]string
	// By how much the times of another release may differ besides, as a share of the expected time. Added in quadrature to the interval of
	// the timed releases, it has 95 % of the times inside that are known of others: 896 of vLLM 0.12 to 0.33 (0.145), 370 of SGLang 0.5.5
	// to 0.5.10 (0.27) and 789 of TensorRT-LLM 1.0 to 1.3 (0.06). Without it 85, 81 and 93 % were inside. Those of
	// transformers are too few to tell; it has the term of all together (0.145). "go test ./validate -run Spread -v" works all of this out.
	spread  float64
	patches []patch
}

// A patch is what releases of an engine do otherwise than those that were timed.
type patch struct {
	// from is the first release that does so, and until the first that no longer does; 0.0.0 where none is known. A release without a number
	// is taken for none before 1.0.0: most builds of that kind are a year old.
	from, until version
	what        string
	source      string
	apply       func(e *Engine, at version)
}

// of reports whether a release has a patch.
func (p *patch) of(v version) bool {
	return !v.before(p.from) && (p.until == version{} || v.before(p.until))
}

// when says which releases have the patch.
func (p *patch) when() string {
	if p.from != (version{}) && (p.until == version{} || p.until == version{1}) {
		return "since " + p.from.String()
	}
	return "before " + p.until.String()
}

// spelled matches versions, as 1.2.0rc6.post2 and 0.1.dev19262+g1a2b, builds as nightly-5b8c and gpt-oss-dev, and a release that nobody
// knows.
var spelled = regexp.MustCompile(`^(unknown|nightly[0-9A-Za-z.-]{0,32}|[a-z0-9-]{1,32}-dev|[0-9][0-9A-Za-z.+_-]{0,39})$`)

// AtRelease is an engine at a release: with the constants of the timed releases, what that release is known to do otherwise, and
// an interval that is wider where it was not timed.
func AtRelease(from analytic.Engine, release string) (analytic.Engine, error) {
	e, _ := from.(*Engine)
	name, of := e.profile.Name, e.releases
	release = strings.TrimPrefix(release, "v")
	switch {
	case len(of.timed) == 0:
		known := names(func(e *Engine) bool { return len(e.releases.timed) > 0 })
		return nil, fmt.Errorf("release %.40q of %s: only releases of %s are known", release, name, strings.Join(known, ", "))
	case !spelled.MatchString(release):
		return nil, fmt.Errorf("release %.40q of %s: want a version, as in %s@0.19.0", release, name, name)
	case e.profile.Engine() != name:
		return nil, fmt.Errorf("release %.40q of %s: it has a release already", release, name)
	}
	at := *e
	at.profile.Name += "@" + release
	if slices.ContainsFunc(of.timed, func(t string) bool { return release == t || strings.HasPrefix(release, t+".") }) {
		return &at, nil
	}
	measured := "not measured; "
	if at.profile.Traced = of.traced[release]; at.profile.Traced != "" {
		measured = fmt.Sprintf("measured on GPUs of the generation %s alone; elsewhere ", at.profile.Traced)
	}
	at.profile.ReleaseError = of.spread
	at.profile.Unmeasured = fmt.Sprintf("%s %s: %sconstants of %s, wider by %.0f %%", e.title, release, measured, of.timed[0], 100*of.spread)
	number := parseVersion(release)
	for _, p := range of.patches {
		if p.of(number) {
			p.apply(&at, number)
			at.profile.Source = fmt.Sprintf("%s %s (%s): %s", p.what, p.when(), p.source, at.profile.Source)
		}
	}
	at.profile.Source = "release " + release + ", by the constants of other releases: " + at.profile.Source
	return &at, nil
}

// A version is the leading numbers of a release, as 0, 5 and 10 of 0.5.10.post1.
type version [3]int

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

func (v version) before(other version) bool { return slices.Compare(v[:], other[:]) < 0 }

// parseVersion gives the leading numbers of a release. A release that does not begin with a number is before no other.
func parseVersion(release string) (v version) {
	if _, err := fmt.Sscanf(release, "%d.%d", &v[0], &v[1]); err != nil {
		return version{math.MaxInt}
	}
	fmt.Sscanf(release, "%d.%d.%d", &v[0], &v[1], &v[2]) //nolint:errcheck // 0.14 is 0.14.0
	return v
}

// olderTables is a patch's constants in place of those of the timed releases, from rows of tables of another name.
func olderTables(name string) func(*Engine, version) {
	return func(e *Engine, _ version) { e.profile.Operators = over(e.profile.Operators, name) }
}
