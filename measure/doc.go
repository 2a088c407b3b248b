// Package measure runs a real inference engine on real hardware and says what
// it took: the times to first and to each further token, memory, throughput and
// energy, with every repeat kept and everything that could spoil the result
// recorded beside it.
//
//	experiment.Point -> Settings -> Worker -> worker.Pass -> result.Result -> aggregate
//	                                Meter  -> power.Window ------^
//
// A Point (package experiment) says what is run, how, and what is timed and metered; a file has many. A Lab turns it into the Settings
// of a session, starts the engine under test, and finds the sensors of its GPUs:
//
//   - Worker is a process that loads a model and repeats a phase (packages worker, transformers, native/process). Its passes are times
//     of steps and nothing else: nothing is derived where it is measured. A server (package openai) is asked over HTTP in its place.
//   - Meter reads energy and clocks (package power): a source of them is a file there, which reads a tree (fs.FS), NVML or a program.
//   - stats makes summaries of samples, and result is the file: one process of one point, whole or absent.
//
// Who may write: the store of package experiment writes results, and nobody else writes into its folder; a trace goes to the folder that
// the point names. Workers write to their pipes alone. Package aggregate reads results and writes nothing.
//
// A session warms an engine up until it is steady, runs each phase in windows that are long enough for the energy counters, and tests
// that the parts add up to the whole. Package calibrate fits constants to what the same workers say of single operators.
//
// What may change: fields of results are added under the same schema; Lab stays. Packages below are of engines and sensors,
// and change with these.
package measure
