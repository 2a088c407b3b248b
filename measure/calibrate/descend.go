package calibrate

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// The rules of the descent.
const (
	derivative  = 1e-5  // step of the finite difference in a logarithm
	mostSteps   = 100   // most steps of a descent
	converged   = 1e-9  // relative decrease of the loss at which a descent ends
	mostDamping = 1e8   // damping at which a descent gives up
	weakest     = 1e-12 // added to the curvature, so that a constant without samples has one
	farthest    = 1.0   // most that a step changes a logarithm
)

// A descent looks for the x at which the residuals have the least loss √(r²+knee²)-knee in sum.
type descent struct {
	residuals func(x, r []float64) // sets r
	n         int                  // residuals
}

func loss(r []float64) (sum float64) {
	for _, v := range r {
		sum += math.Sqrt(v*v+knee*knee) - knee
	}
	return sum
}

// from descends from x by iteratively reweighted least squares (Holland and Welsch 1977). Each step is damped
// as by Levenberg and Marquardt until it lowers the loss. A constant on which no residual depends stays as it is.
func (d *descent) from(x []float64) (best []float64, least float64) {
	best = slices.Clone(x)
	r, tried := make([]float64, d.n), make([]float64, d.n)
	d.residuals(best, r)
	least = loss(r)
	damping := 1e-3
	for range mostSteps {
		curvature, gradient := d.slope(best, r)
		before := least
		for ; damping < mostDamping; damping *= 4 {
			trial := slices.Clone(best)
			for i, step := range newton(curvature, gradient, damping) {
				trial[i] += min(max(step, -farthest), farthest)
			}
			d.residuals(trial, tried)
			if l := loss(tried); l < least {
				best, least, r, tried = trial, l, tried, r
				break
			}
		}
		if before-least <= converged*before {
			break
		}
		damping = max(damping/10, 1e-9)
	}
	return best, least
}

// slope is the weighted normal matrix of the residuals at x and the gradient of their loss.
func (d *descent) slope(x, r []float64) (curvature *mat.SymDense, gradient []float64) {
	k := len(x)
	slopes := make([][]float64, k)
	for j := range x {
		moved := slices.Clone(x)
		moved[j] += derivative
		slopes[j] = make([]float64, d.n)
		d.residuals(moved, slopes[j])
		for i := range r {
			slopes[j][i] = (slopes[j][i] - r[i]) / derivative
		}
	}
	curvature, gradient = mat.NewSymDense(k, nil), make([]float64, k)
	for i, v := range r {
		weight := 1 / math.Sqrt(v*v+knee*knee)
		for a := range k {
			gradient[a] += weight * slopes[a][i] * v
			for b := a; b < k; b++ {
				curvature.SetSym(a, b, curvature.At(a, b)+weight*slopes[a][i]*slopes[b][i])
			}
		}
	}
	return curvature, gradient
}

// newton is a damped step down the gradient; nil where the matrix has no inverse.
func newton(curvature *mat.SymDense, gradient []float64, damping float64) []float64 {
	k := len(gradient)
	damped := mat.NewSymDense(k, nil)
	damped.CopySym(curvature)
	down := mat.NewVecDense(k, nil)
	for i := range k {
		damped.SetSym(i, i, curvature.At(i, i)*(1+damping)+weakest)
		down.SetVec(i, -gradient[i])
	}
	var c mat.Cholesky
	var step mat.VecDense
	if !c.Factorize(damped) || c.SolveVecTo(&step, down) != nil {
		return nil
	}
	return step.RawVector().Data
}
