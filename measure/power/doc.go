// Package power measures energy: with the counters and sensors of NVIDIA GPUs
// (NVML), of processors (RAPL) and of Jetson modules (INA3221 and INA238).
//
// A counter moves in ticks (of 100 ms on an H200), so a window begins and ends at
// ticks: both edges are found by reading until the counter moves, and between
// them it is left alone, since boards exist whose counter runs slow when it is
// read often (an RTX 4090 lost 13 % at a read each 100 ms: Dauner et al.).
// Beside it the power at the moment is sampled and integrated over the same time,
// which has to agree.
//
//	sensor      what it reads                            accuracy
//	nvml        total energy (mJ since the driver was     power: ±5 % by the data sheets of the boards;
//	            loaded); power at the moment, field 186    edges: one read, 4 ms on an H200, of the window
//	nvidia-smi  power.draw.instant, a process a sample    as nvml, seldom: coarse
//	rapl        energy_uj of package and dram (µJ)         edges: 1 ms; the model's error is not published
//	ina3221     volts times amperes of a Jetson's rails    1 % of full scale: coarse, no counter
//	ina238      power of a Jetson Thor's input             likewise
//	tegrastats  the same rails, through NVIDIA's program   likewise, and averaged
//
// What power a sensor sees is its scope: a GPU's board with its memory; a
// processor's package; a Jetson's module or, on AGX Orin and AGX Xavier, the sum
// of the module's rails without the carrier board. Supplies, fans and networks
// are in none of them.
//
// Sources: the NVML API reference (nvmlDeviceGetTotalEnergyConsumption,
// nvmlDeviceGetFieldValues); Yang, Adamek, Armour, "Part-time Power Measurements"
// (SC'24, arXiv 2312.02741) for how often boards update; Linux,
// Documentation/power/powercap and Documentation/hwmon/ina3221.rst; the Jetson
// Linux developer guide for the rails.
package power
