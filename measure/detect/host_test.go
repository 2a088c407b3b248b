package detect

import (
	"encoding/binary"
	"strings"
	"testing"
	"testing/fstest"
)

// module is a memory device of the firmware's tables, with its texts.
func module(megabytes, speed, set uint16, texts ...string) []byte {
	e := make([]byte, 0x22)
	e[0], e[1], e[0x10], e[0x11], e[0x12] = 17, 0x22, 1, 2, 0x22
	binary.LittleEndian.PutUint16(e[0x0c:], megabytes)
	binary.LittleEndian.PutUint16(e[0x15:], speed)
	binary.LittleEndian.PutUint16(e[0x20:], set)
	return append(e, []byte(strings.Join(texts, "\x00")+"\x00\x00")...)
}

// desktopTree is what /proc and /sys of a desktop with two of four slots filled tell.
func desktopTree() fstest.MapFS {
	dmi := append([]byte{0, 6, 0, 0, 0, 0}, []byte("vendor\x00\x00")...)
	dmi = append(dmi, module(16384, 6400, 6000, "DIMM 1", "P0 CHANNEL A")...)
	dmi = append(dmi, module(0, 0, 0, "DIMM 0", "P0 CHANNEL A")...)
	dmi = append(dmi, module(16384, 6400, 6000, "DIMM 1", "P0 CHANNEL B")...)
	cpu := ""
	for core := range 8 {
		for range 2 {
			cpu += "processor\t: 0\nmodel name\t: AMD Ryzen 7 9700X 8-Core Processor\nphysical id\t: 0\ncore id\t\t: " +
				string(rune('0'+core)) + "\nflags\t\t: sse2 avx2 avx512f avx512_vnni\n\n"
		}
	}
	gpu := "sys/bus/pci/devices/0000:01:00.0/"
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	return fstest.MapFS{
		"proc/cpuinfo": file(cpu), "proc/meminfo": file("MemTotal:       32554432 kB\n"), "sys/firmware/dmi/tables/DMI": {Data: dmi},
		gpu + "vendor": file("0x10de\n"), gpu + "class": file("0x030000\n"), gpu + "max_link_speed": file("16.0 GT/s PCIe\n"),
		gpu + "max_link_width": file("16\n"),
	}
}

func TestHostOf(t *testing.T) {
	h, err := hostOf(desktopTree())
	if err != nil {
		t.Fatal(err)
	}
	if h.Cores != 8 || h.Channels != 2 || h.Speed != 6000 || h.PerCore != 20e9 || h.RAM != 32554432*1024 ||
		h.PCIe != 31.504e9 {
		t.Errorf("%+v", h)
	}
	if got, want := hostFlags(&h), "--host ddr5-6000x2 --ram 33GB --threads 8"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	tree := desktopTree()
	for i, b := range tree["sys/firmware/dmi/tables/DMI"].Data { // the kind of memory
		if b == 0x22 && i > 0 && tree["sys/firmware/dmi/tables/DMI"].Data[i-1] == 2 {
			tree["sys/firmware/dmi/tables/DMI"].Data[i] = 0x1a
		}
	}
	if h, err = hostOf(tree); err != nil || h.Key != "ddr4-6000x2" {
		t.Errorf("%+v, %v: want DDR4", h, err)
	}
	delete(tree, "sys/firmware/dmi/tables/DMI")
	if h, err = hostOf(tree); err != nil || hostFlags(&h) != "--ram 33GB --threads 8" {
		t.Errorf("%s, %v: nothing tells which memory it has", hostFlags(&h), err)
	}
	if _, err := hostOf(fstest.MapFS{}); err == nil {
		t.Error("a host without a processor")
	}
}

// No tables of the firmware make it fail.
func FuzzHostOf(f *testing.F) {
	tree := desktopTree()
	f.Add(tree["sys/firmware/dmi/tables/DMI"].Data, tree["proc/cpuinfo"].Data)
	f.Add([]byte{17, 4, 0, 0}, []byte("processor: x"))
	f.Fuzz(func(t *testing.T, dmi, cpu []byte) {
		h, err := hostOf(fstest.MapFS{"proc/cpuinfo": {Data: cpu}, "sys/firmware/dmi/tables/DMI": {Data: dmi}})
		if err == nil && h.Check() != nil {
			t.Errorf("%+v: %v", h, h.Check())
		}
	})
}
