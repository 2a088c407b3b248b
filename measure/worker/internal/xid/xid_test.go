package xid

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// Records as kernels write them, of old and new drivers.
func TestParseRecord(t *testing.T) {
	for record, want := range map[string]Event{
		"3,1200,5000000,-;NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n SUBSYSTEM=pci\n": {
			Code: 79, PCI: "0000:18:00", Text: "NVRM: Xid (PCI:0000:18:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."},
		"4,7,5000000,c;[ 5.0] NVRM: Xid (0000:03:00): 48, An uncorrectable double bit error": {
			Code: 48, PCI: "0000:03:00", Text: "NVRM: Xid (0000:03:00): 48, An uncorrectable double bit error"},
		"4,7,5000000,-;NVRM: Xid (PCI:0000:18:00): 13, \x1b[31mred": {Code: 13, PCI: "0000:18:00",
			Text: "NVRM: Xid (PCI:0000:18:00): 13, ?[31mred"},
	} {
		if at, e, ok := parseRecord(record); !ok || e != want || at != 5*time.Second {
			t.Errorf("%q: %+v at %v, %v; want %+v", record, e, at, ok, want)
		}
	}
	for _, record := range []string{"", ";", "1,2;NVRM: Xid (PCI:0): 1", "1,2,-3,-;NVRM: Xid (PCI:0): 1",
		"1,2,3,-;NVRM: Xid (PCI:0000:18:00): many", "6,1,2,-;nvidia: loading"} {
		if _, e, ok := parseRecord(record); ok {
			t.Errorf("%q is taken for %+v", record, e)
		}
	}
}

func TestReport(t *testing.T) {
	off, _ := parse("NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus.")
	unknown, _ := parse("NVRM: Xid (PCI:0000:18:00): 999, what")
	for want, got := range map[string]string{
		"Xid 79 of the GPU at 0000:18:00: the GPU has fallen off the bus": report([]Event{off}, nil),
		"power, temperature and PCIe slot":                                report([]Event{off}, nil),
		"docs.nvidia.com/deploy/xid-errors":                               report([]Event{unknown}, nil),
		"and 2 more: dmesg | grep -i xid":                                 report([]Event{off, off, off, off, off, off}, nil),
		"reported no Xid":                                                 report(nil, nil),
		"cannot be read here (permission denied): as root":                report(nil, errors.New("permission denied")),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if text := Report(time.Minute); !strings.Contains(text, "Xid") { // whatever this machine lets read
		t.Error(text)
	}
}

// Whatever the kernel's log has, a report is a line of printable text.
func FuzzParseRecord(f *testing.F) {
	f.Add("3,1200,5000000,-;NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus.")
	f.Add("3,1,99999999999999999999,-;NVRM: Xid (PCI:0000:18:00): 79")
	f.Add("3,1,2,-;NVRM: Xid (0:): 0000 \xff\x1b]0;title\a")
	f.Fuzz(func(t *testing.T, record string) {
		at, e, ok := parseRecord(record)
		if !ok {
			return
		}
		text := e.String()
		if at < 0 || e.Code < 0 || !utf8.ValidString(text) || strings.ContainsAny(text, "\n\r\x1b\x00") || len(text) > 1000 {
			t.Fatalf("%v: %q", at, text)
		}
	})
}
