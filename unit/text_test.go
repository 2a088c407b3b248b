package unit

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestString(t *testing.T) {
	for _, tt := range []struct {
		q    fmt.Stringer
		want string
	}{
		{Seconds(0.004505), "4.505 ms"},
		{Seconds(0.0000123456), "12.35 µs"},
		{Seconds(0.99995), "1.000 s"},
		{Seconds(0.99994), "999.9 ms"},
		{Seconds(0.9999499), "999.9 ms"},
		{Seconds(12.3), "12.30 s"},
		{Seconds(4000), "4000 s"},
		{Seconds(123456), "123500 s"},
		{Seconds(1e-20), "1.000e-20 s"},
		{Seconds(0), "0 s"},
		{Seconds(math.Copysign(0, -1)), "0 s"},
		{Seconds(-0.0021), "-2.100 ms"},
		{Seconds(math.NaN()), "NaN s"},
		{Seconds(math.Inf(1)), "Inf s"},
		{Seconds(math.Inf(-1)), "-Inf s"},
		{Bytes(512), "512 B"},
		{Bytes(0.5), "0.5000 B"},
		{Bytes(999.95), "1.000 kB"},
		{Bytes(999.94), "999.9 B"},
		{Bytes(80e9), "80.00 GB"},
		{Bytes(141e9), "141.0 GB"},
		{BytesPerSec(3.35e12), "3.350 TB/s"},
		{BytesPerSec(999.96e9), "1.000 TB/s"},
		{FLOPs(16.06e12), "16.06 TFLOP"},
		{FLOPsPerSec(989.4e12), "989.4 TFLOP/s"},
		{FLOPsPerSec(2.25e15), "2.250 PFLOP/s"},
		{FLOPsPerSec(1e30), "1.000e+30 FLOP/s"},
		{Hertz(1.98e9), "1.980 GHz"},
		{Watts(700), "700.0 W"},
		{Watts(99.99501), "100.0 W"},
		{Joules(-99.9950002), "-100.0 J"},
		{Joules(0.29), "290.0 mJ"},
		{Dollars(0.00123), "$0.00123"},
		{Dollars(12.5), "$12.50"},
		{DollarsPerHour(2.49), "$2.49/h"}, {DollarsPerHour(3), "$3.00/h"}, {DollarsPerHour(0.00025), "$0.00025/h"},
		{DollarsPerHour(0.5), "$0.50/h"}, {Dollars(0.125), "$0.125"}, {Dollars(1125), "$1125.00"},
	} {
		if got := tt.q.String(); got != tt.want {
			t.Errorf("%T(%g) prints %q, want %q", tt.q, tt.q, got, tt.want)
		}
	}
}

func TestBinaryAndCount(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{Bytes(80e9).Binary(), "74.51 GiB"},
		{Bytes(81559 << 20).Binary(), "79.65 GiB"},
		{Bytes(1 << 30).Binary(), "1.000 GiB"},
		{Bytes(1<<30 - 1).Binary(), "1.000 GiB"},
		{Bytes(512).Binary(), "512 B"},
		{Bytes(math.Inf(1)).Binary(), "Inf B"},
		{Bytes(math.NaN()).Binary(), "NaN B"},
		{Count(8030261248), "8.03B"},
		{Count(124439808), "124M"},
		{Count(999_999_999), "1.00B"},
		{Count(671026419200), "671B"},
		{Count(1.04e12), "1.04T"},
		{Count(512), "512"},
		{Count(0), "0"},
		{Count(-2048), "-2.05K"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		text string
		kind kind
		want float64
	}{
		{"3.35 TB/s", bytesPerSec, 3.35e12},
		{"450GB/s", bytesPerSec, 450e9},
		{"400 Gb/s", bytesPerSec, 50e9},
		{"200 Gbit/s", bytesPerSec, 25e9},
		{"80 GB", bytes, 80e9},
		{"96 GiB", bytes, 96 << 30},
		{"4 KiB", bytes, 4096},
		{"2 EB", bytes, 2e18},
		{"1e3 B", bytes, 1000},
		{" 1.5e-1 ", bytes, 0.15},
		{"989.4 TFLOP/s", flopsPerSec, 989.4e12},
		{"989.4 TFLOPS", flopsPerSec, 989.4e12},
		{"19.5 TFLOPs/s", flopsPerSec, 19.5e12},
		{"624 TOPS", flopsPerSec, 624e12},
		{"2 GFLOP", flops, 2e9},
		{"700 W", watts, 700},
		{"1.5 kW", watts, 1500},
		{"1.98 GHz", hertz, 1.98e9},
		{"1830 MHz", hertz, 1.83e9},
		{"4.505 ms", seconds, 0.004505},
		{"12 us", seconds, 12e-6},
		{"12 µs", seconds, 12e-6},
		{"12 μs", seconds, 12e-6},
		{"1 Wh", joules, 3600},
		{"2.49 $/h", dollarsPerHour, 2.49}, {"$2.49/h", dollarsPerHour, 2.49},
		{"2.49 USD/h", dollarsPerHour, 2.49},
		{"0", seconds, 0},
	} {
		got, err := tt.kind.parse(tt.text)
		if err != nil || got != tt.want {
			t.Errorf("%q reads as %v, %v; want %v", tt.text, got, err, tt.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct {
		text string
		kind kind
		why  string
	}{
		{"1 TFLOP/s", bytesPerSec, `"TFLOP/s" is not a unit of it; write it as in "3.35 TB/s or 400 Gb/s"`},
		{"80 Gb", bytes, `"Gb" is not a unit of it`},
		{"80 KB", bytes, `"KB" is not a unit of it`},
		{"80 GB/s", bytes, `"GB/s" is not a unit of it`},
		{"80 GB", bytesPerSec, `"GB" is not a unit of it`},
		{"1 TFLOPS", flops, `"TFLOPS" is not a unit of it`},
		{"1 TFLOPs", flopsPerSec, `"TFLOPs" is not a unit of it`},
		{"1 mB", bytes, `"mB" is not a unit of it`},
		{"1 iB", bytes, `"iB" is not a unit of it`},
		{"1 iMB", bytes, `"iMB" is not a unit of it`},
		{"1 Gib/s", bytesPerSec, `"Gib/s" is not a unit of it`},
		{"1 kg", watts, `"kg" is not a unit of it`},
		{"-1 W", watts, "it is negative"},
		{"NaN W", watts, "want a number and a unit"},
		{"Inf", watts, "want a number and a unit"},
		{"+Inf W", watts, "want a number and a unit"},
		{"0x10 W", watts, `"x10 W" is not a unit of it`},
		{"1_000 W", watts, `"_000 W" is not a unit of it`},
		{"1,5 W", watts, `",5 W" is not a unit of it`},
		{"", watts, "want a number and a unit"},
		{"W", watts, "want a number and a unit"},
		{".", watts, "want a number and a unit"},
		{"1e999 W", watts, "too large"},
		{"1e308 MW", watts, "too large"},
	} {
		v, err := tt.kind.parse(tt.text)
		if err == nil || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%q as %s: got %v, %v; want an error with %q", tt.text, tt.kind.noun, v, err, tt.why)
		}
	}
}

// Programs read numbers: "4.505 ms" in JSON would be a string to parse again.
func TestJSONIsANumber(t *testing.T) {
	type result struct {
		TTFT Seconds `json:"ttft_s"`
		Net  Joules  `json:"net_j"`
	}
	want := result{TTFT: 0.004505, Net: -0.25}
	text, err := json.Marshal(want)
	if err != nil || string(text) != `{"ttft_s":0.004505,"net_j":-0.25}` {
		t.Fatalf("marshals as %s, %v", text, err)
	}
	var got result
	if err := json.Unmarshal(text, &got); err != nil || got != want {
		t.Errorf("reads back as %v, %v", got, err)
	}
	if err := json.Unmarshal([]byte(`{"ttft_s":"4.505 ms","net_j":null}`), &got); err != nil || got != want {
		t.Errorf("reads a string as %v, %v", got, err)
	}
	if err := json.Unmarshal([]byte(`{"ttft_s":"4 W"}`), &got); err == nil {
		t.Error("a power was read as a time")
	}
}

// The pairs of printer and reader of every quantity.
func printed(v float64) []struct {
	text string
	back interface {
		encoding.TextUnmarshaler
		fmt.Stringer
	}
} {
	type both interface {
		encoding.TextUnmarshaler
		fmt.Stringer
	}
	return []struct {
		text string
		back interface {
			encoding.TextUnmarshaler
			fmt.Stringer
		}
	}{
		{FLOPs(v).String(), both(new(FLOPs))},
		{FLOPsPerSec(v).String(), both(new(FLOPsPerSec))},
		{Bytes(v).String(), both(new(Bytes))},
		{Bytes(v).Binary(), binary{new(Bytes)}},
		{BytesPerSec(v).String(), both(new(BytesPerSec))},
		{Seconds(v).String(), both(new(Seconds))},
		{Hertz(v).String(), both(new(Hertz))},
		{Watts(v).String(), both(new(Watts))},
		{Joules(v).String(), both(new(Joules))},
		{Dollars(v).String(), both(new(Dollars))},
		{DollarsPerHour(v).String(), both(new(DollarsPerHour))},
	}
}

type binary struct{ *Bytes }

func (b binary) String() string { return b.Binary() }

func FuzzText(f *testing.F) {
	for _, v := range []float64{
		0, 1, 0.004505, 999.95, 999.9499999, 1023.95, 1023.9499, 1048575, 1e15, 1.999999999999841e15, 9.9995e17, 1e21, 1e-13,
	} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v float64) {
		v = math.Abs(v)
		if math.IsNaN(v) || v > 1e290 || v != 0 && v < 1e-290 {
			t.Skip("rounds out of the range of numbers")
		}
		for _, p := range printed(v) {
			if err := p.back.UnmarshalText([]byte(p.text)); err != nil {
				t.Fatalf("%g prints %q, which does not read: %v", v, p.text, err)
			}
			if again := p.back.String(); again != p.text {
				t.Errorf("%g prints %q, which prints %q", v, p.text, again)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"3.35 TB/s", "400 Gb/s", "96 GiB", "-1", "1e999", "1e", "é", "2EB", "1 $/h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, k := range []kind{flops, flopsPerSec, bytes, bytesPerSec, seconds, hertz, watts, joules, dollars,
			dollarsPerHour} {
			v, err := k.parse(s)
			if err == nil && !(v >= 0 && !math.IsInf(v, 0)) {
				t.Errorf("%q reads as %v", s, v)
			}
		}
	})
}
