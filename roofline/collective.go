package roofline

// ring is the law of a collective over one transport: latency that grows with the
// GPUs, and the bytes that each sends. An all-reduce sends 2(n-1)/n of its message.
func ring(share, base, perGPU Constant) Law {
	return Law{
		Equation: "base + n × per_gpu + bytes sent / (share × link)",
		Terms: func(k *Kernel, p *Peaks) (t Terms) {
			t.add(Network, share, None, seconds(k.Work.Wire, p.LinkAmong(k.Shape.Ranks)))
			t.add(Fixed, base, None, k.Launches)
			t.add(Fixed, perGPU, None, k.Launches*k.Shape.Ranks)
			if k.Work.NodeWire > 0 {
				t.add(Network, InterNodeShare, None, seconds(k.Work.NodeWire, p.NIC))
				t.add(Fixed, InterNodeBase, None, k.Launches)
			}
			return t
		},
	}
}

// Nothing runs beside a copy that the host waits for. Where the GPU shares the host's
// memory, it reads and writes that alone.
var hostCopy = Law{
	Equation: "max(FLOPs / (compute × vector peak), bytes / (memory × bandwidth)) + bytes / (share × PCIe)",
	Terms: func(k *Kernel, p *Peaks) (t Terms) {
		t.arithmetic(k, p, ElementwiseCompute)
		t.add(Memory, ElementwiseMemory, None, seconds(k.Work.Traffic(), p.Memory))
		if p.PCIe > 0 {
			t.add(Serial, PCIeShare, None, seconds(k.Work.Acts, p.PCIe))
		}
		return t
	},
}
