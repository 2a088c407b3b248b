package result

// Energy is what the phases used. Scope says whose: the GPUs, with CPU, DRAM or
// a board's rails beside them in the phases' domains.
type Energy struct {
	Scope      string     `json:"scope"`
	PerPrompt  *float64   `json:"per_prompt_j"` // one sequence's share, gross
	PerToken   *float64   `json:"per_token_j"`
	PerRequest *float64   `json:"per_request_j"`
	Net        *NetEnergy `json:"net"` // energy less that of idle with the weights resident
	Prefill    *Window    `json:"prefill"`
	Decode     *Window    `json:"decode"`
	Request    *Window    `json:"request"`
	Idle       *Window    `json:"idle"`        // before the engine started
	IdleLoaded *Window    `json:"idle_loaded"` // idle window with the weights resident
	CO2        *CO2       `json:"co2"`
}

// NetEnergy is energy less what idling as long would have used.
type NetEnergy struct {
	PerPrompt  *float64 `json:"per_prompt_j"`
	PerToken   *float64 `json:"per_token_j"`
	PerRequest *float64 `json:"per_request_j"`
}

// CO2 is what the energy of a request stands for.
type CO2 struct {
	GramsPerKWh float64 `json:"g_per_kwh"`
	PerRequest  float64 `json:"per_request_g"`
	Source      string  `json:"source"`
}

// A Window is what the meters saw while one phase repeated.
type Window struct {
	Seconds float64  `json:"seconds"`
	Passes  float64  `json:"passes"` // a pass that straddles an edge counts by its share of time
	Steps   float64  `json:"steps"`
	Domains []Domain `json:"domains"`
}

// A Domain is one thing that energy was measured of.
type Domain struct {
	Name      string   `json:"name"`     // "GPU 0", "package-0", "VDD_IN"
	Kind      string   `json:"kind"`     // "gpu", "cpu", "dram", "module", "board", "rail"
	ID        string   `json:"id"`       // the GPU's UUID
	Sensor    string   `json:"sensor"`   // "nvml counter", "rapl", "ina3221", ...
	Includes  []string `json:"includes"` // parts that a shared rail feeds
	Summed    bool     `json:"summed"`   // The domain counts towards the total; a part of another domain does not.
	EnergyJ   float64  `json:"energy_j"` // best figure: the counter's where there is one
	CounterJ  *float64 `json:"counter_j"`
	IntegralJ *float64 `json:"integral_j"` // integral of instantaneous power over the same edges
	MeanW     float64  `json:"mean_w"`
	Seconds   float64  `json:"seconds"` // between its own edges
	Samples   int      `json:"samples"`
	Coarse    bool     `json:"coarse"` // a sensor that averages or seldom answers
}
