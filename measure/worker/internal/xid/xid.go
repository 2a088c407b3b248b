// Package xid reads why a GPU failed: NVIDIA's driver reports it to the kernel's log, as
// "NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus".
// (https://docs.nvidia.com/deploy/xid-errors)
package xid

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// An Event is one report of the driver.
type Event struct {
	Code int
	PCI  string // address of the GPU, as "0000:18:00"
	Text string // the whole line, cut
}

var line = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{1,32})\): ([0-9]{1,4})\b`)
})

// mostText is how many bytes of a line are kept.
const mostText = 200

// parse finds a report in a message of the kernel.
func parse(message string) (Event, bool) {
	at := line().FindStringSubmatchIndex(message)
	if at == nil {
		return Event{}, false
	}
	code, err := strconv.Atoi(message[at[4]:at[5]])
	if err != nil {
		return Event{}, false
	}
	text, _, _ := strings.Cut(message[at[0]:], "\n")
	text = strings.Map(printable, text)
	if len(text) > mostText {
		text = strings.ToValidUTF8(text[:mostText], "") + "..."
	}
	return Event{Code: code, PCI: message[at[2]:at[3]], Text: text}, true
}

func printable(r rune) rune {
	if !strconv.IsPrint(r) {
		return '?'
	}
	return r
}

// parseRecord reads a record of /dev/kmsg, "priority,number,microseconds,flags;message", and
// gives the time since the system's start.
func parseRecord(record string) (at time.Duration, e Event, ok bool) {
	head, message, found := strings.Cut(record, ";")
	fields := strings.Split(head, ",")
	if !found || len(fields) < 3 {
		return 0, Event{}, false
	}
	us, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil || us < 0 || us > int64(1<<63-1)/int64(time.Microsecond) {
		return 0, Event{}, false
	}
	e, ok = parse(message)
	return time.Duration(us) * time.Microsecond, e, ok
}

// A meaning is what a code says, and what to do about it.
type meaning struct{ says, look string }

// meanings are those of NVIDIA's list that end a computation.
var meanings = map[int]meaning{
	13:  {"an exception of the graphics engine, mostly a fault of a kernel", "run it under compute-sanitizer"},
	31:  {"a fault of the GPU's memory addresses, mostly of a kernel", "run it under compute-sanitizer"},
	43:  {"the GPU stopped processing a program that had failed", "look for an Xid before it"},
	45:  {"the driver ended the work of a program that was killed or had failed", "look for an Xid before it"},
	48:  {"a memory error of two bits, which ECC cannot correct", "nvidia-smi -q -d ECC,ROW_REMAPPER; the GPU has to be reset"},
	61:  {"a breakpoint of the GPU's microcontroller", "update the driver; reset the GPU"},
	62:  {"the GPU's microcontroller halted", "update the driver; reset the GPU"},
	63:  {"a row of memory is to be replaced", "nvidia-smi -q -d ROW_REMAPPER; reset the GPU"},
	64:  {"a row of memory could not be replaced", "nvidia-smi -q -d ROW_REMAPPER; have the GPU replaced"},
	74:  {"an error of NVLink", "nvidia-smi nvlink -e; cables and switches of NVLink"},
	79:  {"the GPU has fallen off the bus", "power, temperature and PCIe slot of the board; restart the machine"},
	92:  {"many memory errors that ECC corrected", "nvidia-smi -q -d ECC"},
	94:  {"a memory error that ended one program alone", "nvidia-smi -q -d ECC,ROW_REMAPPER; start again"},
	95:  {"a memory error that other programs may have seen", "nvidia-smi -q -d ECC,ROW_REMAPPER; the GPU has to be reset"},
	109: {"a context switch took too long", "update the driver"},
	119: {"the GPU's system processor (GSP) does not answer", "reset the GPU or restart the machine; update the driver"},
	120: {"an error of the GPU's system processor (GSP)", "reset the GPU or restart the machine; update the driver"},
	140: {"a memory error that ECC could not correct", "nvidia-smi -q -d ECC,ROW_REMAPPER; the GPU has to be reset"},
	143: {"the GPU could not be started", "restart the machine; update the driver"},
	145: {"a link of NVLink went down", "nvidia-smi nvlink -e; cables and switches of NVLink"},
}

// String says what an event is and what to look at.
func (e Event) String() string {
	m, known := meanings[e.Code]
	if !known {
		m = meaning{"see https://docs.nvidia.com/deploy/xid-errors", "nvidia-smi -q"}
	}
	return fmt.Sprintf("Xid %d of the GPU at %s: %s (%q); look at: %s", e.Code, e.PCI, m.says, e.Text, m.look)
}

// mostEvents is enough to see the first, which is the cause, and its consequences.
const mostEvents = 4

// Report says what the driver reported in the last while, and where to look else: it reads
// the log of this system's kernel.
func Report(while time.Duration) string {
	events, err := read(while)
	return report(events, err)
}

func report(events []Event, err error) string {
	const look = "nvidia-smi -q says whether the GPU answers"
	switch {
	case err != nil:
		return fmt.Sprintf("the driver reports the reason to the kernel's log as an Xid, and that cannot be read here (%v): as root, on the "+
			"host, dmesg | grep -i xid; %s", err, look)
	case len(events) == 0:
		return "the driver reported no Xid to the kernel's log since the engine was started, which speaks for a fault of the program and not " +
			"of the GPU; " + look
	}
	var all []string
	for _, e := range events[:min(len(events), mostEvents)] {
		all = append(all, e.String())
	}
	text := "the driver reported " + strings.Join(all, "; ")
	if more := len(events) - mostEvents; more > 0 {
		text += fmt.Sprintf("; and %d more: dmesg | grep -i xid", more)
	}
	return text
}
