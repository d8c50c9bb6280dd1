internal import Carillon
package import Foundation
internal import PushWire

/// A benchmark's results as one self-contained page: no scripts, no fonts, nothing from the
/// network.
package enum BenchPage {
  /// - Parameter date: The time of the measurement.
  package static func text(_ report: BenchReport, at date: Date) -> String {
    let body = [
      header(report, at: date), cards(report), sweeps(report), latencies(report), table(report), footer(report),
    ].joined(separator: "\n")
    return """
      <!DOCTYPE html>
      <html lang="en">
      <head>
      <meta charset="utf-8">
      <meta name="viewport" content="width=device-width, initial-scale=1">
      <title>carillon bench</title>
      <style>\(BenchPageStyle.text)</style>
      </head>
      <body>
      <main>
      \(body)
      </main>
      </body>
      </html>

      """
  }

  private static func header(_ report: BenchReport, at date: Date) -> String {
    let day = ISO8601DateFormatter.string(
      from: date, timeZone: .gmt, formatOptions: [.withInternetDateTime, .withSpaceBetweenDateAndTime])
    return """
      <header>
      <h1>carillon bench</h1>
      <p>\(Plot.escaped(BenchText.headline(report)))</p>
      <p class="quiet">\(Plot.escaped(BenchText.machine(report.machine))) · \(Plot.escaped(day))</p>
      </header>
      """
  }

  /// The figures of the fastest point.
  private static func cards(_ report: BenchReport) -> String {
    guard let best = report.points.max(by: { $0.perSecond < $1.perSecond }) else {
      return "<p>Nothing was measured.</p>"
    }
    func card(_ title: String, _ value: String, _ note: String) -> String {
      "<div class=\"card\"><h3>\(Plot.escaped(title))</h3><p class=\"figure\">\(Plot.escaped(value))</p><p "
        + "class=\"quiet\">\(Plot.escaped(note))</p></div>"
    }
    let latency = best.toSocket.map { Figures.time(Double($0.at(99))) } ?? "–"
    let note =
      report.points.count > 1
      ? "the highest: \(BenchText.description(best.settings))" : "over \(Figures.decimal(best.seconds)) s"
    return "<section class=\"cards\">"
      + [
        card("Throughput", Figures.rate(best.perSecond), note),
        card(
          "CPU per notification", "\(Figures.decimal(best.userMicroseconds + best.systemMicroseconds)) µs",
          "user \(Figures.decimal(best.userMicroseconds)) µs, system \(Figures.decimal(best.systemMicroseconds)) "
            + "µs; the sender's alone"
        ),
        card(
          "Submission to socket, p99", latency,
          best.settings.rate == nil ? "closed loop: the queues were full" : "from the moment it was due"),
        card(
          "Batches", Figures.percent(best.batchFill),
          "of their limit; \(Figures.decimal(best.notificationsPerBatch)) notifications in each"),
        card("Peak memory", Figures.bytes(Double(best.peakMemoryByteCount)), "resident, the sender's alone"),
      ].joined() + "</section>"
  }

  // MARK: Plots

  private static func sweeps(_ report: BenchReport) -> String {
    report.plan.sweep.swept.map { sweep($0, report) }.joined(separator: "\n")
  }

  private static func sweep(_ variable: BenchVariable, _ report: BenchReport) -> String {
    let points = report.plan.sweep.series(variable).compactMap(report.point).sorted {
      variable.number($0.settings) < variable.number($1.settings)
    }
    guard points.count > 1 else { return "" }
    let labels = points.map { variable.text($0.settings) }
    func line(_ name: String, _ value: (BenchPoint) -> Double?) -> Plot.Line {
      Plot.Line(name: name, values: points.map(value))
    }
    func latency(_ percentile: Double) -> Plot.Line {
      line(percentile == 100 ? "max" : BenchJSON.name(percentile)) { $0.toSocket.map { Double($0.at(percentile)) } }
    }
    // Rates differ by powers of ten. So does the cost of a notification when few share a wake-up.
    let spreads = variable == .rate
    let sent = line("sent") { $0.perSecond }
    let plots = [
      Plot(
        title: "Throughput", axis: variable.title, labels: labels,
        lines: spreads ? [sent, line("asked for") { $0.settings.rate }] : [sent],
        scale: spreads ? .logarithmic : .linear, format: Figures.rate),
      Plot(
        title: "CPU per notification", axis: variable.title, labels: labels,
        lines: [line("user") { $0.userMicroseconds * 1e3 }, line("system") { $0.systemMicroseconds * 1e3 }],
        scale: spreads ? .logarithmic : .linear, shape: spreads ? .lines : .stackedBars, format: Figures.time),
      Plot(
        title: "From submission to the socket", axis: variable.title, labels: labels,
        lines: [latency(50), latency(99), latency(99.9), latency(100)], scale: .logarithmic, format: Figures.time),
      Plot(
        title: "Peak memory", axis: variable.title, labels: labels,
        lines: [line("memory") { Double($0.peakMemoryByteCount) }], shape: .stackedBars,
        unit: 1_048_576, format: Figures.bytes),
    ]
    return "<section><h2>By \(Plot.escaped(variable.title))</h2><div "
      + "class=\"plots\">\(plots.map(\.html).joined())</div></section>"
  }

  /// More lines than this cannot be distinguished.
  private static let lineLimit = Plot.colourCount
  private static let plotted: [Double] = [50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99, 99.999, 100]

  private static func latencies(_ report: BenchReport) -> String {
    func plot(_ title: String, _ summary: (BenchPoint) -> LatencySummary?) -> Plot? {
      let points = report.points.filter { summary($0) != nil }.prefix(lineLimit)
      guard !points.isEmpty else { return nil }
      let swept = report.plan.sweep.swept
      let lines = points.map { point in
        let name =
          swept.isEmpty ? title : swept.map { "\($0.rawValue) \($0.text(point.settings))" }.joined(separator: ", ")
        return Plot.Line(
          name: name, values: plotted.map { percentile in summary(point).map { Double($0.at(percentile)) } })
      }
      let labels = plotted.map { $0 == 100 ? "max" : String(BenchJSON.name($0).dropFirst()) }
      return Plot(
        title: title, axis: "percentile", labels: labels, lines: lines, scale: .logarithmic, format: Figures.time)
    }
    let plots = [
      plot("From submission to the socket") { $0.toSocket }, plot("From submission to the answer") { $0.toAnswer },
    ].compactMap { $0 }
    guard !plots.isEmpty else { return "" }
    let more =
      report.points.count > lineLimit
      ? "<p class=\"quiet\">The first \(lineLimit) points; the table has them all.</p>" : ""
    return
      "<section><h2>Latency by percentile</h2>\(more)<div class=\"plots\">\(plots.map(\.html).joined())</div></section>"
  }

  // MARK: Text

  private static func table(_ report: BenchReport) -> String {
    let titles =
      report.plan.sweep.variables.map(\.rawValue) + [
        "sent", "CPU user", "CPU system", "to socket p50", "p99", "p99.9", "max", "to answer p50", "p99", "per batch",
        "fill", "per TLS record", "memory",
      ]
    let rows = report.points.map { point -> String in
      func latency(_ summary: LatencySummary?, _ percentile: Double) -> String {
        summary.map { Figures.time(Double($0.at(percentile))) } ?? "–"
      }
      let cells =
        report.plan.sweep.variables.map { $0.text(point.settings) } + [
          Figures.rate(point.perSecond), "\(Figures.decimal(point.userMicroseconds)) µs",
          "\(Figures.decimal(point.systemMicroseconds)) µs", latency(point.toSocket, 50), latency(point.toSocket, 99),
          latency(point.toSocket, 99.9), latency(point.toSocket, 100), latency(point.toAnswer, 50),
          latency(point.toAnswer, 99), Figures.decimal(point.notificationsPerBatch), Figures.percent(point.batchFill),
          Figures.bytes(point.bytesPerTLSRecord), Figures.bytes(Double(point.peakMemoryByteCount)),
        ]
      return "<tr>" + cells.map { "<td>\(Plot.escaped($0))</td>" }.joined() + "</tr>"
    }
    let head = "<tr>" + titles.map { "<th>\(Plot.escaped($0))</th>" }.joined() + "</tr>"
    return "<section><h2>All points</h2><div "
      + "class=\"wide\"><table><thead>\(head)</thead><tbody>\(rows.joined())</tbody></table></div></section>"
  }

  private static func footer(_ report: BenchReport) -> String {
    let extent =
      switch report.plan.extent {
      case .duration(let duration, let warmUp):
        "Each point ran for \(Figures.time(warmUp.inSeconds * 1e9)) before it was measured for "
          + "\(Figures.time(duration.inSeconds * 1e9))."
      case .count(let count):
        "Each point is \(NumberText.grouped(count)) notifications, from the first connection to the last outcome."
      }
    return "<footer>" + ([extent] + BenchText.notes(report)).map { "<p>\(Plot.escaped($0))</p>" }.joined() + "</footer>"
  }
}
