package result

import "testing"

// BenchmarkDecode reads one result.
func BenchmarkDecode(b *testing.B) {
	data, err := Encode(fixture(b))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Decode("x.json", data); err != nil {
			b.Fatal(err)
		}
	}
}
