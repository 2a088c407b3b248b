package hardware

// Power says what a GPU draws. Idle and Waiting apart, its figures are shares of
// what lies between the waiting power and the power limit, added up. What
// arithmetic draws is not among them: it follows from the rates of bursts and of
// sustained work (Calibration.Sustained).
type Power struct {
	Memory  float64 // while its memory runs at the rate that kernels of its kind reach
	Network float64 // while its links do
	Fixed   float64 // while a kernel starts and ends

	// Own and Attention are Memory of an engine's own products of few rows and of
	// decode attention. What they draw beyond Memory the multiprocessors do, whose clocks
	// the power limit lowers: they can be above 1.
	Own, Attention float64

	// Waiting is what it draws at full clocks while it waits for its host: a share of
	// what lies between the idle power and the power limit.
	Waiting float64

	// Idle, a share of the whole limit, stands in where no source gives the idle
	// power.
	Idle float64
}

// powerOfH200 is what an H200 drew, whose limit is 700 W; no other GPU was measured.
//
//   - Idle: 79 W without a process.
//   - Waiting: 121.2 W, the median of the 41 windows with a model loaded and nothing
//     to do of experiments/h200, which go from 116 to 126 W; 123 W between the
//     operators of testdata/h200_operators.json.
//   - Memory: products of one row drew 562 W at 4.26 TB/s (the same file). Products of 8
//     and 32 rows, which nothing was taken from, then come within 3 % of the 572 and
//     663 W measured.
//   - Fixed: the least mean error of the energy per token of Llama-3.1-8B in a graph
//     (validate/observations/h200.csv), so those rows are scored apart.
//   - Network, Own, Attention: not measured apart; kernels are taken to draw what the
//     products of a library do for the bytes that they move.
func powerOfH200() Power {
	return Power{Memory: 0.70, Own: 0.70, Attention: 0.70, Network: 0.15, Fixed: 0.16, Waiting: 0.068, Idle: 0.11}
}
