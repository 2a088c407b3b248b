package detect

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"llmprof/hardware"
	"llmprof/internal/procfs"
	"llmprof/unit"
)

// hostOf is the host that a file system with /proc and /sys tells of: its processor, its memory as the firmware lists the modules,
// which only the administrator may read, and the link to the first NVIDIA GPU. What is not told is that of a usual desktop.
func hostOf(root fs.FS) (hardware.Host, error) {
	h := hardware.Desktop()
	h.Key, h.Name, h.Aliases, h.Read, h.PCIe, h.Source = "", "", nil, 0, 0, "found on this machine"
	text, err := fs.ReadFile(root, "proc/cpuinfo")
	if err != nil {
		return h, fmt.Errorf("no host found: %w", err)
	}
	setProcessor(&h, string(text))
	if ram := procfs.Memory(root); ram != nil {
		h.RAM = unit.Bytes(*ram)
	}
	if table, err := fs.ReadFile(root, "sys/firmware/dmi/tables/DMI"); err == nil {
		setMemory(&h, table)
	}
	h.PCIe = linkOf(root)
	return h, nil
}

// setProcessor reads /proc/cpuinfo: the name, the physical cores and the vector instructions, by which the rate of a core is that of
// hosts.toml whose processors have the same.
func setProcessor(h *hardware.Host, text string) {
	cores, socket := map[string]bool{}, ""
	threads := 0
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		switch key, value = strings.TrimSpace(key), strings.TrimSpace(value); key {
		case "processor":
			threads++
		case "model name":
			h.Name = value
		case "physical id":
			socket = value
		case "core id":
			cores[socket+" "+value] = true
		case "flags", "Features":
			words := strings.Fields(value)
			switch {
			case slices.Contains(words, "avx512_vnni"), slices.Contains(words, "asimd"):
				h.PerCore = 20e9
			case slices.Contains(words, "avx_vnni"):
				h.PerCore = 18e9
			default:
				h.PerCore = 9e9
			}
		}
	}
	if h.Cores = len(cores); h.Cores == 0 {
		h.Cores = max(threads, 1)
	}
}

// channelNames are how firmware names the channel of a module: "P0 CHANNEL A", "ChannelB-DIMM0", "DIMM_A1".
var channelNames = regexp.MustCompile(`(?i)(?:channel[ _-]?|dimm[ _-]?)([a-p])`)

// kinds are names of the kinds of memory by their number in the firmware's tables.
var kinds = map[byte]string{0x1a: "ddr4", 0x1e: "lpddr4", 0x22: "ddr5", 0x23: "lpddr5"}

// setMemory reads the memory modules of the firmware's tables (SMBIOS 3.7, type 17): their speed, and how many channels have one.
func setMemory(h *hardware.Host, table []byte) {
	const memoryDevice, least = 17, 0x17
	channels, speed, filled, kind := map[string]bool{}, 0.0, 0, "ddr5"
	for len(table) >= 4 && int(table[1]) >= 4 && int(table[1]) <= len(table) {
		entry := table[:table[1]]
		texts, rest := strings.Split(string(table[table[1]:]), "\x00"), table[len(entry):]
		end := 0
		for end+1 < len(rest) && (rest[end] != 0 || rest[end+1] != 0) {
			end++
		}
		table = rest[min(end+2, len(rest)):]
		if entry[0] != memoryDevice || len(entry) < least || binary.LittleEndian.Uint16(entry[0x0c:]) == 0 {
			continue
		}
		filled++
		kind = cmp.Or(kinds[entry[0x12]], kind)
		rated := float64(binary.LittleEndian.Uint16(entry[0x15:]))
		if len(entry) >= 0x22 {
			if set := float64(binary.LittleEndian.Uint16(entry[0x20:])); set > 0 {
				rated = set
			}
		}
		speed = max(speed, rated)
		for _, at := range []byte{entry[0x11], entry[0x10]} { // bank, device
			if n := int(at); n > 0 && n <= len(texts) {
				if m := channelNames.FindStringSubmatch(texts[n-1]); m != nil {
					channels[strings.ToUpper(m[1])] = true
					break
				}
			}
		}
	}
	if speed < 400 || filled == 0 {
		return
	}
	h.Speed, h.Channels = speed, len(channels)
	if h.Channels == 0 {
		h.Channels = min(filled, 2)
	}
	h.Key = fmt.Sprintf("%s-%.0fx%d", kind, h.Speed, h.Channels)
}

// lanes are rates of a PCIe lane, in one direction, by the transfers a second that sysfs writes.
var lanes = map[string]unit.BytesPerSec{"2.5": 250e6, "5.0": 500e6, "8.0": 985e6, "16.0": 1.969e9, "32.0": 3.938e9, "64.0": 7.56e9}

// linkOf is the rate of the link to the first GPU of NVIDIA or AMD that has one; 0 where none is told. The widest link counts, since an
// idle card slows it down.
func linkOf(root fs.FS) unit.BytesPerSec {
	devices, err := fs.Glob(root, "sys/bus/pci/devices/*")
	if err != nil {
		return 0
	}
	for _, d := range devices {
		read := func(name string) string {
			text, _ := fs.ReadFile(root, path.Join(d, name))
			return strings.TrimSpace(string(text))
		}
		vendor, class := read("vendor"), read("class")
		if vendor != "0x10de" && vendor != "0x1002" || !strings.HasPrefix(class, "0x03") {
			continue
		}
		speed, _, _ := strings.Cut(read("max_link_speed"), " ")
		if width, err := strconv.Atoi(read("max_link_width")); err == nil && lanes[speed] > 0 {
			return lanes[speed].Times(float64(width))
		}
	}
	return 0
}

// hostFlags are the options that describe a detected host to "llmprof estimate", without its memory where nothing tells of that.
func hostFlags(h *hardware.Host) string {
	text := fmt.Sprintf("--ram %.0fGB --threads %d", float64(h.RAM)/1e9, h.Cores)
	if h.Key != "" {
		text = "--host " + h.Key + " " + text
	}
	return text
}
