package roofline

// A Set is a set of constants. It does not distinguish a constant of a quantization scheme from the
// constant that stands in for it, nor the constants of an engine on its host from each other.
type Set uint64

// sets has the set of each constant, and shares says which of them are shares of a peak. Pricing a kernel asks for both, of each term.
var (
	sets   [NumConstants]Set
	shares [NumConstants]bool
)

func init() { //nolint:gochecknoinits // the constants have to be defined first
	next := 1
	for _, k := range All() {
		switch {
		case table[k].Base != None:
		case table[k].Engine:
			sets[k] = 1
		default:
			sets[k] = 1 << next
			next++
		}
	}
	if next > 64 {
		panic("roofline: a Set has room for 64 constants")
	}
	for _, k := range All() {
		base := k
		for table[base].Base != None {
			base = table[base].Base
		}
		sets[k], shares[k] = sets[base], table[k].Quantity == Share
	}
}

// SetOf is a set of constants.
func SetOf(all ...Constant) (s Set) {
	for _, k := range all {
		s |= sets[k]
	}
	return s
}
