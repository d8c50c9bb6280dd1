internal import Carillon
internal import PushWire
internal import Testing

@testable internal import PushBench

/// The values of a benchmark, read from text.
struct BenchValuesTests {
  @Test("each variable has its values in the order given")
  func values() throws {
    var plan = BenchPlan()
    try plan.set(.transport, to: "http2, binary")
    try plan.set(.apps, to: "1,10,100")
    try plan.set(.connections, to: "4")
    try plan.set(.streams, to: "10,100")
    try plan.set(.batch, to: "1,4KiB")
    try plan.set(.payload, to: "20,2048")
    try plan.set(.rate, to: "max,100,300/m")
    try plan.set(.latency, to: "0ms,20ms,1")
    try plan.setTrickle("50")
    #expect(plan.sweep.transports == [.http2, .binary])
    #expect(plan.sweep.apps == [1, 10, 100])
    #expect(plan.sweep.connections == [4])
    #expect(plan.sweep.streams == [10, 100])
    #expect(plan.sweep.batchByteCounts == [1, 4096])
    #expect(plan.sweep.payloadByteCounts == [20, 2048])
    #expect(plan.sweep.rates == [nil, 100, 5])
    #expect(plan.sweep.latencies == [.zero, .milliseconds(20), .seconds(1)])
    #expect(plan.trickle == 50)
  }

  @Test(
    "a value that cannot be is an error that says which can",
    arguments: [
      (BenchVariable.apps, "0", "must be from 1 to 1000, not 0"),
      (.apps, "1,1", "has the value 1 twice"),
      (.apps, "two", "must be a value or a list such as 1,10,100, not \"two\""),
      (.apps, (1...33).map(String.init).joined(separator: ","), "can have at most 32 values, not 33"),
      (.batch, "17MiB", "must be from 1 byte (one frame in each write) to 16MiB, not 17MiB"),
      (.rate, "0.01", "must be from 0.1 to 100000000 per second, not \"0.01\""),
      (.latency, "1h", "must be from 0ms to 10s, not 1h"),
      (.latency, "100us", "must be whole milliseconds, not 100us"),
      (.streams, "1,2", "can have several values only if http2 is the first transport"),
      (.payload, "3000", "must be from 20 to 2048, not 3000"),
    ])
  func errors(variable: BenchVariable, text: String, problem: String) {
    var plan = BenchPlan()
    let error = #expect(throws: ValueError.self) { try plan.set(variable, to: text) }
    #expect(error?.problem == problem)
  }

  @Test("the limit of payloads is the smallest of the transports")
  func payloadLimits() throws {
    var plan = BenchPlan()
    try plan.set(.transport, to: "http2")
    try plan.set(.payload, to: "4096")
    plan.command = .simple
    try plan.set(.transport, to: "http2,binary")
    #expect(throws: ValueError("must be from 20 to 256, not 257")) { try plan.set(.payload, to: "257") }
  }

  @Test("a trickle has a number", arguments: ["max", "fast", "0"])
  func trickle(text: String) {
    var plan = BenchPlan()
    #expect(throws: ValueError.self) { try plan.setTrickle(text) }
    #expect(plan.trickle == nil)
  }
}
