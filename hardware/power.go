package hardware

// Power says what a GPU draws of what its power limit leaves above its idle
// power, as shares of that, added up and never above the limit.
type Power struct {
	Compute float64 // while its matrix units run at the rate they reach
	Memory  float64 // while its memory does
	Network float64 // while its links do

	// Idle, a share of the whole limit, stands in where no source gives the idle
	// power.
	Idle float64
}

// powerOfH200 is from an H200 whose large GEMMs drew 695 of 700 W at 670 TFLOP/s
// and whose products of one row drew 562 W at 4.26 TB/s
// (testdata/h200_operators.json); the two put its products of 8 and 32 rows within
// 3 % of the 572 and 663 W measured. Without a process it idles at 79 of 700 W.
// Links were not measured apart.
func powerOfH200() Power { return Power{Compute: 1.15, Memory: 0.73, Network: 0.15, Idle: 0.11} }
