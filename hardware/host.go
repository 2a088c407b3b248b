package hardware

import (
	"cmp"
	_ "embed" // hosts.toml
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"

	"llmprof/internal/spelling"
	"llmprof/unit"
)

//go:embed hosts.toml
var hostsTOML string

// A Host is the computer around a GPU, as far as work and weights may lie there: its processor, its memory, and the way to the GPU.
type Host struct {
	Name     string   `toml:"name"`
	Key      string   `toml:"-"`
	Aliases  []string `toml:"aliases"`
	Channels int      `toml:"channels"` // channels of 64 bits; those of LPDDR and of DDR5's halves added up to as many bits
	Speed    float64  `toml:"speed"`    // million transfers a second

	RAM     unit.Bytes       `toml:"ram"`
	Read    unit.BytesPerSec `toml:"read"`      // most that the processor reads, where its fabric limits it; 0 for the memory's rate
	PerCore unit.BytesPerSec `toml:"core_read"` // rate of one thread in products with weights in Q4_K, which it reads from memory
	Cores   int              `toml:"cores"`     // physical cores without efficiency cores, as many as llama.cpp starts threads
	PCIe    unit.BytesPerSec `toml:"pcie"`      // rate to one GPU, in one direction; 0 for that of the GPU

	Pageable unit.BytesPerSec `toml:"pageable"` // rate of copies to the GPU of memory that is not pinned
	Sync     unit.Seconds     `toml:"sync"`     // time of a launch and of waiting for it
	Threads  int              `toml:"-"`        // threads of the engine; 0 for as many as there are cores
	Source   string           `toml:"source"`
}

// busBytes is the width of a memory channel.
const busBytes = 8

// Bandwidth is the rate of the memory: channels × transfers × 8 bytes.
func (h *Host) Bandwidth() unit.BytesPerSec {
	return unit.BytesPerSec(float64(h.Channels) * h.Speed * 1e6 * busBytes)
}

// threads is the number of threads at work.
func (h *Host) threads() float64 { return float64(cmp.Or(h.Threads, h.Cores)) }

// Reads is the rate at which the memory is read: what it and the fabric let through.
func (h *Host) Reads() unit.BytesPerSec { return min(h.Bandwidth(), cmp.Or(h.Read, h.Bandwidth())) }

// q4kBytes is the size of a weight in Q4_K: 144 bytes hold 256.
const q4kBytes = 144.0 / 256

// Weights is the rate of the threads in weights of Q4_K a second, where the memory does not limit them. Threads beyond the cores share
// them.
func (h *Host) Weights() unit.FLOPsPerSec {
	return unit.FLOPsPerSec(min(h.threads(), float64(h.Cores)) * float64(h.PerCore) / q4kBytes)
}

// hosts are the tables of hosts.toml, by their keys.
var hosts = sync.OnceValue(func() map[string]*Host {
	var file struct{ Host map[string]*Host }
	if _, err := toml.Decode(hostsTOML, &file); err != nil {
		panic(err) // The file is part of the program, and a test reads it.
	}
	for key, h := range file.Host {
		h.Key = key
	}
	return file.Host
})

// Hosts lists the known hosts by their keys.
func Hosts() (all []Host) {
	for _, key := range slices.Sorted(maps.Keys(hosts())) {
		all = append(all, *hosts()[key])
	}
	return all
}

// memories is a kind of memory with its speed and its channels, as ddr5-6000x2.
var memories = regexp.MustCompile(`^(lp)?ddr([345]x?)-(\d{3,5})(?:x(\d{1,2}))?$`)

// HostOf is the host of a name: that of the table, or a desktop or laptop with a kind of memory, its speed and its channels, as
// ddr5-6000x2.
func HostOf(name string) (Host, error) {
	folded, names := strings.ToLower(strings.TrimSpace(name)), []string{}
	for key, h := range hosts() {
		if key == folded || slices.Contains(h.Aliases, folded) {
			return *h, nil
		}
		names = append(append(names, key), h.Aliases...)
	}
	found := memories.FindStringSubmatch(folded)
	if found == nil {
		slices.Sort(names)
		return Host{}, fmt.Errorf("host %.40q is not known; want memory as ddr5-6000x2, or %s", name, spelling.Hint(name, names))
	}
	base := desktop
	switch {
	case found[1] != "":
		base = laptop
	case !strings.HasPrefix(found[2], "5"):
		base = oldDesktop
	}
	h := *hosts()[base]
	h.Key, h.Name, h.Channels = folded, folded, 2
	h.Speed, _ = strconv.ParseFloat(found[3], 64)
	if found[4] != "" {
		h.Channels, _ = strconv.Atoi(found[4])
	}
	if h.Channels < 1 || h.Speed < 400 || h.Speed > 20000 {
		return h, fmt.Errorf("host %.40q: want 400 to 20000 million transfers a second, and at least one channel", name)
	}
	h.Read = 0
	return h, nil
}

// desktop and server are what is taken for a host that nobody describes, and the others for one with DDR4 or LPDDR.
const desktop, oldDesktop, laptop, server = "desktop-ddr5", "desktop-ddr4", "laptop-lpddr5x", "server-ddr5"

// Desktop is the host that is taken where nobody describes it.
func Desktop() Host { return *hosts()[desktop] }

// UsualHost is the host that a GPU is taken to be in: a desktop for one without ECC memory or a node of its own, else a server.
func UsualHost(g *GPU) Host {
	key := desktop
	if g.Link > 0 && !g.Bridge || g.NIC > 0 {
		key = server
	}
	return *hosts()[key]
}

// On is g in a host.
func (g *GPU) On(h *Host) *GPU {
	other := *g
	other.Host = *h
	if h.PCIe > 0 && g.PCIe > 0 {
		other.PCIe = min(g.PCIe, h.PCIe)
	}
	return &other
}

// Check says what about a host cannot be.
func (h *Host) Check() error {
	switch {
	case h.Channels < 1 || h.Speed < 400 || h.Cores < 1 || h.RAM < 1e9 || h.PerCore < 1e9 || h.Pageable < 1e8:
		return fmt.Errorf("host %s: channels, speed, cores, ram, core_read or pageable is missing or too small", h.Name)
	case h.Sync <= 0 || h.Sync > 0.01 || math.IsNaN(float64(h.Sync)):
		return fmt.Errorf("host %s: sync is %v: want up to 10 ms", h.Name, h.Sync)
	}
	return nil
}
