package power

// reasons names the bits for which clocks are held down, of
// nvmlClocksEventReasons in nvml.h and of nvidia-smi's clocks_event_reasons.active.
// What is wanted by the user (idle 1, application clocks 2, display clocks 0x100)
// holds nothing down.
var reasons = []struct {
	bit  uint64
	name string
}{
	{0x4, "power cap"},
	{0x8, "hardware slowdown"},
	{0x10, "sync boost"},
	{0x20, "thermal (software)"},
	{0x40, "thermal (hardware)"},
	{0x80, "power brake"},
}

// reasonsOf names the bits of a mask.
func reasonsOf(mask uint64) []string {
	var names []string
	for _, r := range reasons {
		if mask&r.bit != 0 {
			names = append(names, r.name)
		}
	}
	return names
}
