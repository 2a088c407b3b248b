// Package measure runs a real inference engine on real hardware and says what
// it took: the times to first and to each further token, memory, throughput and
// energy, with every repeat kept and everything that could spoil the result
// recorded beside it.
//
// Its packages are stats (samples and what follows from them), worker (the processes that
// run a model), native, transformers and openai (the engines, and the servers that are asked over HTTP), power
// (the sensors, with procfs for what Linux says of the machine) and result (the file that a
// run leaves). This package puts them together: it warms an engine up until it is steady, runs each phase in
// windows that are long enough for the energy counters, tests that the parts
// add up to the whole, and writes what it saw.
package measure
