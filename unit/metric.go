package unit

// A Metric is one figure of an estimate, with its 90 % interval and its floor where it has them; 0 is none.
type Metric struct {
	Key    string
	Title  string // what people call it; "" for one that tables of headlines leave out
	Unit   string // "s", "J", "B", "$"... ; "" for a bare number
	Value  float64
	Low    float64
	High   float64
	Floor  float64
	Bound  string // what bounds a time; "" for none
	Reason string // why there is no value; "" where there is one
}

// Column is the name of a part of the metric ("low", "high", "floor" or "bound") in a table with a column for each: the unit of a time
// comes last, and a bound has none.
func (m *Metric) Column(part string) string {
	const seconds = "_s"
	switch n := len(m.Key) - len(seconds); {
	case part == "":
		return m.Key
	case m.Unit == "s" && part == "bound":
		return m.Key[:n] + "_" + part
	case m.Unit == "s":
		return m.Key[:n] + "_" + part + seconds
	}
	return m.Key + "_" + part
}

// Find is the metric of a key; one without a value where there is none.
func Find(all []Metric, key string) *Metric {
	for i := range all {
		if all[i].Key == key {
			return &all[i]
		}
	}
	return &Metric{Key: key, Reason: "it is not known"}
}
