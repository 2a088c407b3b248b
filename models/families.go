package models

// families lists every family that is understood.
func families() []family {
	return concat(llamas(), classics(), gemmas(), mixtures(), latents(), scans(), hybrids(), singular(), remotes(), sharers(), linears(), lates())
}

func concat(lists ...[]family) []family {
	var all []family
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// nestedDefaults is what a class of transformers assumes for a decoder inside
// a wrapper.
func nestedDefaults(d decoder) string {
	if !d.nested {
		return ""
	}
	return ""
}
