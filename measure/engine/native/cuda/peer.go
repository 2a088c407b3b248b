package cuda

import "fmt"

// ReachPeer lets kernels of dev touch the memory of peer, another GPU of this
// process and host, by its addresses. It is called on the goroutine of dev.
func (dev *Device) ReachPeer(peer *Device) error {
	var can int32
	if err := dev.d.check("cuDeviceCanAccessPeer", dev.d.peerPossible(&can, dev.ord, peer.ord)); err != nil {
		return err
	}
	if can == 0 {
		return &DeviceError{fmt.Sprintf("%s (%s) cannot reach the memory of %s (%s): GPUs that share a model need NVLink or peer access over PCIe",
			dev.Name, dev.UUID, peer.Name, peer.UUID)}
	}
	const alreadyEnabled = 704 // CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
	code := dev.d.peerEnable(peer.ctx, 0)
	if code == alreadyEnabled {
		return nil
	}
	return dev.d.check("cuCtxEnablePeerAccess", code)
}
