internal import PushStore
internal import PushWire
internal import Testing

@testable internal import PushServer

@Suite("Since when an alarm stands")
struct AlarmPhaseTests {
  private static func alarm(
    _ name: Alarm.Name, app: String? = nil, node: String? = nil, _ text: String = "text"
  ) -> Alarm {
    Alarm(name: name, severity: .warning, app: app, node: node, text: text, action: "action")
  }

  private static func at(_ second: Int) -> StoreInstant { StoreInstant(milliseconds: Int64(second) * 1_000) }

  @Test("it begins once, keeps its beginning while its text changes, and is over when it was calm for a minute")
  func phases() {
    var phases = AlarmPhases()
    let start = Instant(nanoseconds: 5)
    var (begun, over): ([String], [String]) = ([], [])
    func look(_ alarms: [Alarm], second: Int) {
      let found = phases.look(alarms, at: Self.at(second), now: start + .seconds(second))
      begun += found.begun.map { "\(second) \($0.app ?? "")" }
      over += found.over.map { "\(second) \($0.subject.app ?? "") \($0.duration.components.seconds)" }
    }
    for second in stride(from: 0, through: 100, by: 5) {
      // One stands, another one comes and goes.
      let alarms = [Self.alarm(.queueOld, app: "news", "\(second) s")]
      look(alarms + (second % 10 == 0 ? [Self.alarm(.queueOld, app: "chat")] : []), second: second)
    }
    #expect(begun == ["0 news", "0 chat"])
    #expect(over.isEmpty)
    #expect(phases.since(Self.alarm(.queueOld, app: "news")) == Self.at(0))
    #expect(phases.since(Self.alarm(.queueOld, app: "none")) == nil)
    #expect(phases.since(Self.alarm(.appStopped, app: "news")) == nil)
    for second in stride(from: 105, through: 200, by: 5) {
      look(second > 120 ? [Self.alarm(.queueOld, app: "chat")] : [], second: second)
    }
    #expect(over == ["160 news 100"])
    #expect(phases.since(Self.alarm(.queueOld, app: "chat")) == Self.at(0))
    look([Self.alarm(.queueOld, app: "news")], second: 205)
    #expect(begun == ["0 news", "0 chat", "205 news"])
    #expect(phases.since(Self.alarm(.queueOld, app: "news")) == Self.at(205))
  }

  @Test("nodes have alarms of their own")
  func nodes() {
    var phases = AlarmPhases()
    let nodes = ["a", "b"].map { Self.alarm(.nodeSilent, node: $0) }
    #expect(phases.look(nodes, at: Self.at(0), now: .start).begun == nodes)
    #expect(phases.look([nodes[0]], at: Self.at(60), now: .start + .seconds(60)).over.map(\.subject.node) == ["b"])
  }
}
