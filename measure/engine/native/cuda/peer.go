package cuda

import "fmt"

// Together says why the first GPUs, so many, could not share a model: there are
// fewer, or one of them cannot reach another's memory. It touches none of them.
func Together(folder string, gpus int) error {
	d, err := openDriver(folder)
	if err != nil {
		return err
	}
	all := make([]*Device, gpus)
	for i := range all {
		all[i] = &Device{d: d}
		if err := all[i].find(i); err != nil {
			return err
		}
	}
	for _, dev := range all {
		for _, peer := range all {
			if err := dev.canReach(peer); dev != peer && err != nil {
				return err
			}
		}
	}
	return nil
}

// canReach says why kernels of dev could not touch the memory of peer.
func (dev *Device) canReach(peer *Device) error {
	var can int32
	if err := dev.d.check("cuDeviceCanAccessPeer", dev.d.peerPossible(&can, dev.ord, peer.ord)); err != nil {
		return err
	}
	if can == 0 {
		return &DeviceError{fmt.Sprintf("%s (%s) cannot reach the memory of %s (%s): GPUs that share a model need NVLink or peer access over PCIe",
			dev.Name, dev.UUID, peer.Name, peer.UUID)}
	}
	return nil
}

// ReachPeer lets kernels of dev touch the memory of peer, another GPU of this
// process and host, by its addresses. It is called on the goroutine of dev.
func (dev *Device) ReachPeer(peer *Device) error {
	if err := dev.canReach(peer); err != nil {
		return err
	}
	const alreadyEnabled = 704 // CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
	code := dev.d.peerEnable(peer.ctx, 0)
	if code == alreadyEnabled {
		return nil
	}
	return dev.d.check("cuCtxEnablePeerAccess", code)
}
