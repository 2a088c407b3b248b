package roofline

import "llmprof/unit"

// ring is the law of a collective over one transport: a latency that grows with the number of
// GPUs, and the time of the bytes that each GPU sends. An all-reduce sends 2(n-1)/n of its message.
func ring(share, base, perGPU Constant) Law {
	return Law{
		Equation: "base + n × per_gpu + bytes sent / (share × link)",
		List: func(t *Terms, k *Kernel, p *Peaks) {
			t.add(Network, share, seconds(k.Work.Wire, p.LinkAmong(k.Shape.Ranks)))
			t.add(Fixed, base, k.Launches)
			t.add(Fixed, perGPU, k.Launches*k.Shape.Ranks)
			if k.Work.NodeWire > 0 {
				t.add(Network, InterNodeShare, seconds(k.Work.NodeWire, p.NIC))
				t.add(Fixed, InterNodeBase, k.Launches)
			}
		},
	}
}

// peerReduce is the law of an all-reduce over peer memory. In one exchange each rank reads the whole
// message of all others; in two it sums a slice of the message, and reads the other sums. A message that takes two exchanges
// takes no less than the largest one that takes one: if two were faster, they would be taken earlier.
func peerReduce() Law {
	once, twice := ring(OneShotShare, OneShotBase, OneShotPerGPU), ring(OneShotSlicedShare, OneShotBase, OneShotPerGPU)
	return Law{
		Equation: once.Equation + "; in two exchanges bytes sent / (sliced_share × link) + second, and no less than the largest message of " +
			"one exchange",
		List: func(t *Terms, k *Kernel, p *Peaks) {
			if k.Sliced == 0 {
				once.List(t, k, p)
				return
			}
			twice.List(t, k, p)
			t.add(Fixed, OneShotSecond, k.Launches*k.Sliced)
		},
		Choose: func(m *Machine, t *Terms, k *Kernel) {
			if k.Sliced == 0 {
				return
			}
			var largest Terms // terms of the largest message of one exchange
			least := *k
			least.Sliced, least.Work.Wire = 0, k.Once
			once.List(&largest, &least, &m.Peaks)
			a, b := m.times(t), m.times(&largest)
			if b.overlapped(0) > a.overlapped(0) {
				*t = largest
			}
		},
	}
}

// Exchange turns an all-reduce that sends 2(n-1)/n of its message into one over peer memory: it takes one exchange
// up to most bytes of message, and two beyond.
func (k *Kernel) Exchange(most func(ranks int) unit.Bytes) {
	n := k.Shape.Ranks
	message := k.Work.Wire.Times(n / (2 * (n - 1)))
	k.Sliced, k.Once = 1, most(int(n)).Times(n-1)
	if message <= most(int(n)) {
		k.Sliced, k.Work.Wire = 0, message.Times(n-1)
	}
}

// The host waits for the copy, and no kernel runs beside it. Where GPU and host share their
// memory, there is no transfer over PCIe.
var hostCopy = Law{
	Equation: "max(FLOPs / (compute × vector peak), bytes / (memory × bandwidth)) + bytes / (share × PCIe)",
	List: func(t *Terms, k *Kernel, p *Peaks) {
		t.arithmetic(k, p, ElementwiseCompute)
		t.add(Memory, ElementwiseMemory, seconds(k.Work.Traffic(), p.Memory))
		if p.PCIe > 0 {
			t.add(Serial, HostCopyShare, seconds(k.Work.Acts, p.PCIe))
		}
	},
}
