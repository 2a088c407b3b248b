package roofline

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every constant has an entry, with a key of its own.
func TestEveryConstantHasAnEntry(t *testing.T) {
	seen := map[string]Constant{}
	for _, c := range All() {
		i := c.Info()
		section, name, ok := strings.Cut(i.Key, ".")
		if !ok || section == "" || name == "" || i.Help == "" {
			t.Errorf("constant %d: %+v", c, i)
		}
		if other, twice := seen[i.Key]; twice {
			t.Errorf("%q is the key of %v and of %v", i.Key, other, c)
		}
		if seen[i.Key] = c; ConstantOf(i.Key) != c {
			t.Errorf("%q is taken for %v, want %v", i.Key, ConstantOf(i.Key), c)
		}
		if i.Quantity == Share && i.Ideal != 1 || i.Quantity != Share && i.Ideal != 0 {
			t.Errorf("%s: the ideal of a share is 1, of all else 0: %v", c, i.Ideal)
		}
	}
	if ConstantOf("") != None || ConstantOf("gemm") != None {
		t.Error("what is no key is taken for a constant")
	}
}

// outside are the constants that are no term of a law: powers, the rate that the power
// limit leaves, what the host and a graph add to every step.
var outside = map[Constant]string{
	GEMMSustained: "analytic/energy/energy.go", PowerWaiting: "analytic/energy/energy.go", PowerMatrix: "analytic/energy/energy.go",
	PowerMemory: "analytic/energy/energy.go", PowerNetwork: "analytic/energy/energy.go",
	PowerFixed: "analytic/energy/energy.go", PowerUnpack: "analytic/energy/energy.go", PowerGEMM: "analytic/energy/energy.go",
	PowerIdle: "analytic/energy/energy.go", HostStep: "analytic/host.go",
	HostLaunch: "analytic/host.go", HostDispatch: "analytic/host.go",
	HostAsync: "analytic/host.go", HostSequence: "analytic/host.go", HostRequest: "analytic/host.go", StreamNode: "analytic/host.go",
	HostIntake: "analytic/server.go", HostToken: "analytic/server.go", HostFinish: "analytic/server.go",
	GraphNode: "analytic/engine/transformers.go",
}

// Every constant is a term of some law, what some class draws, or named where it is used.
func TestNoConstantIsDead(t *testing.T) {
	used := map[Constant]bool{}
	random := rand.New(rand.NewPCG(7, 7))
	for c := range NumClasses {
		used[LawOf(c).Power] = true
		for range 200 {
			k := kernel(random, c)
			if random.IntN(2) == 0 {
				k.Shape.Tokens, k.Tile = 1, Tile{}
			}
			m, terms := NewMachine(peaks(), constants(random)), Terms{}
			m.terms(&terms, k)
			used[terms.exposed] = true
			for _, x := range terms.List() {
				used[x.By], used[x.And] = true, true
			}
		}
	}
	names := constantNames(t)
	for _, c := range All() {
		file, named := outside[c]
		switch {
		case !used[c] && !named:
			t.Errorf("%s is in no law", c)
		case named:
			text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(file)))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), "roofline."+names[c]) {
				t.Errorf("%s does not use roofline.%s", file, names[c])
			}
		}
	}
}

// constantNames reads the names of the constants from their list.
func constantNames(t *testing.T) []string {
	text, err := os.ReadFile("constants.go")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"None"}
	for _, m := range regexp.MustCompile(`(?m)^\t(\w+)\s+= define\(`).FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
	}
	own := 0
	for _, c := range All() {
		if !c.OfScheme() {
			own++
		}
	}
	if len(names) != own+1 || len(All()) >= NumConstants {
		t.Fatalf("%d names of %d constants, %d with those of schemes", len(names), own, len(All()))
	}
	return names
}

// What a quantity allows holds its ideal, and refuses what no machine has.
func TestValid(t *testing.T) {
	for _, c := range All() {
		q := c.Info().Quantity
		if q.Want() == "" || !c.Valid(1e-3) || c.Valid(-1e-30) || c.Valid(1e6) {
			t.Errorf("%s: %s", c, q.Want())
		}
		if q == Share && (!c.Valid(1) || c.Valid(1.01) || c.Valid(0)) {
			t.Errorf("%s: a share of the peak", c)
		}
		if longer := c.Longer(0.1); longer < 0.1 || (longer > 0.1) != (q == Share) {
			t.Errorf("%s: its terms take %v longer where it is off by 0.1", c, longer)
		}
	}
}
