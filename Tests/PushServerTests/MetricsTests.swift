internal import PushWire
internal import Testing

@testable internal import PushServer

/// A line of the text format, taken apart as a monitor does.
struct MetricSample: Hashable {
  let name: String
  let labels: [String: String]
  let value: Double

  /// - Returns: nil if the line does not follow the format.
  init?(_ line: some StringProtocol) {
    var rest = line.unicodeScalars[...]
    func take(while condition: (UnicodeScalar) -> Bool) -> String {
      let part = rest.prefix(while: condition)
      rest = rest.dropFirst(part.count)
      return String(String.UnicodeScalarView(part))
    }
    func isName(_ scalar: UnicodeScalar) -> Bool {
      scalar.isASCII
        && (scalar.properties.isAlphabetic || scalar.properties.numericType != nil
          || "_:".unicodeScalars.contains(scalar))
    }
    name = take(while: isName)
    guard let first = name.first, !first.isNumber else { return nil }
    var labels: [String: String] = [:]
    if rest.first == "{" {
      rest = rest.dropFirst()
      while rest.first != "}" {
        if rest.first == "," { rest = rest.dropFirst() }
        let key = take(while: isName)
        guard !key.isEmpty, rest.starts(with: "=\"".unicodeScalars) else { return nil }
        rest = rest.dropFirst(2)
        var value = String.UnicodeScalarView()
        while let scalar = rest.popFirst(), scalar != "\"" {
          guard scalar == "\\" else {
            value.append(scalar)
            continue
          }
          switch rest.popFirst() {
          case "n": value.append("\n")
          case "\\": value.append("\\")
          case "\"": value.append("\"")
          default: return nil
          }
        }
        guard labels.updateValue(String(value), forKey: key) == nil else { return nil }
      }
      rest = rest.dropFirst()
    }
    guard rest.first == " " else { return nil }
    let number = String(String.UnicodeScalarView(rest.dropFirst()))
    guard let value = number == "+Inf" ? .infinity : Double(number) else { return nil }
    self.labels = labels
    self.value = value
  }
}

@Suite("Metrics")
struct MetricsTests {
  private static func samples(_ text: MetricsText) throws -> [MetricSample] {
    let text = String(decoding: text.bytes, as: UTF8.self)
    #expect(text.isEmpty || text.hasSuffix("\n"))
    return try text.split(separator: "\n").filter { !$0.hasPrefix("#") }.map {
      try #require(MetricSample($0), "\($0)")
    }
  }

  @Test("labels with quotes, backslashes and line ends are escaped")
  func escaping() throws {
    let hostile = "a\"b\\c\nd{}, e=\"f\" ü"
    let description = MetricDescription(name: "things_total", help: "One\\two\nthree.", kind: .counter)
    var export = MetricsText([description])
    export.add(description, 3, ("app", hostile), ("b", ""))
    let text = String(decoding: export.bytes, as: UTF8.self)
    #expect(text.hasPrefix("# HELP things_total One\\\\two\\nthree.\n# TYPE things_total counter\n"))
    let sample = try #require(try Self.samples(export).first)
    #expect(sample.name == "things_total")
    #expect(sample.labels == ["app": hostile, "b": ""])
    #expect(sample.value == 3)
  }

  @Test("a histogram has cumulative buckets, its sum in base units and its count")
  func histogram() throws {
    var export = MetricsText([Metric.journalSync])
    #expect(export.bytes.isEmpty, "a metric without a value is not exported")
    let series = HistogramSeries(Metric.journalSync, [("disk", "a")])
    series.record(.milliseconds(2))
    series.record(.milliseconds(2.5))
    series.record(ticks: 20_000_000, count: 3)
    series.record(.seconds(100))
    export.add(series)
    let samples = try Self.samples(export)
    let buckets = samples.filter { $0.name == "carillon_journal_fsync_seconds_bucket" }
    #expect(buckets.count == 12)
    func count(_ bound: String) -> Double? { buckets.first { $0.labels["le"] == bound }?.value }
    #expect(count("0.001") == 0)
    #expect(count("0.0025") == 2)
    #expect(count("0.025") == 5)
    #expect(count("5") == 5)
    #expect(count("+Inf") == 6)
    #expect(buckets.map(\.value) == buckets.map(\.value).sorted())
    #expect(buckets.allSatisfy { $0.labels["disk"] == "a" })
    let sum = try #require(samples.first { $0.name == "carillon_journal_fsync_seconds_sum" }?.value)
    #expect(abs(sum - 100.0645) < 1e-9)
    #expect(samples.first { $0.name == "carillon_journal_fsync_seconds_count" }?.value == 6)
  }

  @Test("the same name and labels are one histogram; those of a removed app are gone, and no others")
  func identity() {
    let histograms = Histograms()
    let first = histograms.series(Metric.batchSize, ("app", "a"))
    let others = [
      histograms.series(Metric.batchSize, ("app", "ab")), histograms.series(Metric.deliveryDuration, ("app", "b")),
      histograms.series(Metric.requestDuration, ("route", "a")),
    ]
    #expect(histograms.series(Metric.batchSize, ("app", "a")) === first)
    histograms.remove(apps: ["a"])
    #expect(histograms.all.map(ObjectIdentifier.init) == others.map(ObjectIdentifier.init))
    #expect(histograms.series(Metric.deliveryDuration, ("app", "b")) === others[1])
    #expect(histograms.series(Metric.batchSize, ("app", "a")) !== first)
  }

  @Test("the lines of a metric stand together, in the order in which they were added")
  func families() throws {
    var export = MetricsText(Metric.all)
    export.add(Metric.paused, 1, ("app", "a"))
    export.add(Metric.resent, 2, ("app", "a"))
    export.add(Metric.paused, 3, ("app", "b"))
    export.add(Metric.resent, 4, ("app", "b"))
    #expect(try Self.samples(export).map(\.value) == [2, 4, 1, 3])
  }

  @Test("names follow Prometheus: base units, _total on counters only, few buckets")
  func names() {
    for description in Metric.all {
      #expect(description.name.hasPrefix("carillon_"))
      #expect(description.name.wholeMatch(of: /[a-z][a-z_]*/) != nil)
      #expect(description.help.hasSuffix("."))
      #expect(description.name.hasSuffix("_total") == (description.kind == .counter), "\(description.name)")
      if case .histogram(let bounds) = description.kind {
        #expect(bounds.ticks.count + 1 <= 12)
        #expect(bounds.ticks == bounds.ticks.sorted())
      }
    }
    #expect(Set(Metric.all.map(\.name)).count == Metric.all.count)
  }

  @Test("a batch's time counts for what is settled of it, in any order and in parts")
  func batchTimes() {
    var times = BatchTimes()
    func at(_ seconds: UInt64) -> Instant { Instant(nanoseconds: seconds * 1_000_000_000) }
    times.wrote(0..<20, count: 10, at: at(1))
    times.wrote(20..<30, count: 5, at: at(2))
    times.wrote(32..<40, count: 4, at: at(3))
    #expect(times.settled(20..<22, count: 1) == [.init(at: at(2), count: 1)])
    #expect(times.settled(0..<30, count: 14) == [.init(at: at(1), count: 10), .init(at: at(2), count: 4)])
    #expect(!times.isEmpty)
    #expect(times.settled(32..<40, count: 4) == [.init(at: at(3), count: 4)])
    #expect(times.isEmpty)
    #expect(times.settled(50..<60, count: 4).isEmpty)
    for index in 0..<UInt64(3 * BatchTimes.limit) { times.wrote(index..<(index + 1), count: 1, at: at(index)) }
    #expect(times.settled(0..<1, count: 1).isEmpty)
    let last = UInt64(3 * BatchTimes.limit) - 1
    #expect(times.settled(last..<(last + 1), count: 1) == [.init(at: at(last), count: 1)])
  }
}
