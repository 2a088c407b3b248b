package power

// reasons names the bits for which clocks are held down, of
// nvmlClocksEventReasons in nvml.h and of nvidia-smi's clocks_event_reasons.active.
// What is wanted by the user (idle 1, application clocks 2, display clocks 0x100)
// holds nothing down.
var reasons = []struct {
	bit  uint64
	name string
}{
	{0x4, "sw_power_cap"},
	{0x8, "hw_slowdown"},
	{0x10, "sync_boost"},
	{0x20, "sw_thermal"},
	{0x40, "hw_thermal"},
	{0x80, "hw_power_brake"},
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
