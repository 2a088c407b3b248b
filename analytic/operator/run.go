package operator

// A Run is a number of steps, each after the tokens of the one before it. The run is repeated
// Times times, for groups of sequences.
type Run struct {
	First Step
	Steps int
	Times float64
}

// Last is the last step of the run.
func (r *Run) Last() Step { return r.at(r.Steps - 1) }

func (r *Run) at(n int) Step {
	s := r.First
	s.Past += s.New * float64(n)
	return s
}

// Halves are the first and the second half of the run.
func (r *Run) Halves() (left, right Run) {
	half := r.Steps / 2
	return Run{r.First, half, r.Times}, Run{r.at(half), r.Steps - half, r.Times}
}

// A Piece identifies a linear piece of a step's figures over its context: it is a hash
// (FNV-1a) of every choice that the step makes, such as whether a window is full, or what
// bounds a kernel. While no choice changes, every count and every time is linear in the
// context, so a run whose first and last step lie on one piece comes to its length times the
// mean of the two, however long it is. Where the pieces differ, the run is halved until each
// part lies on one piece, which takes a logarithmic number of steps.
type Piece uint64

// Mark adds a choice.
func (p *Piece) Mark(choice uint64) { *p = (*p ^ Piece(choice)) * 1099511628211 }
