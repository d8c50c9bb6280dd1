internal import Carillon
internal import PushWire

/// A benchmark's results as a table for the terminal: one row per point.
package enum BenchTable {
  package static func text(_ report: BenchReport) -> String {
    let swept = report.plan.sweep.swept
    // Settings that do not vary stand once, above the table.
    let variables = swept.isEmpty ? report.plan.sweep.variables : swept
    var rows = [variables.map(\.rawValue) + columns]
    for point in report.points { rows.append(variables.map { $0.text(point.settings) } + cells(point)) }
    let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
    var lines = [BenchText.headline(report), ""]
    lines += rows.map { row in
      row.indices.map { String(repeating: " ", count: widths[$0] - row[$0].count) + row[$0] }.joined(separator: "  ")
    }
    lines.append("")
    lines += BenchText.notes(report)
    return lines.joined(separator: "\n")
  }

  private static let columns = [
    "sent", "CPU user+system", "to socket p50", "p99", "max", "to answer p99", "per batch", "fill", "per TLS record",
    "memory",
  ]

  private static func cells(_ point: BenchPoint) -> [String] {
    func latency(_ summary: LatencySummary?, _ percentile: Double) -> String {
      summary.map { Figures.time(Double($0.at(percentile))) } ?? "-"
    }
    return [
      Figures.rate(point.perSecond),
      "\(Figures.decimal(point.userMicroseconds))+\(Figures.decimal(point.systemMicroseconds)) µs",
      latency(point.toSocket, 50), latency(point.toSocket, 99), latency(point.toSocket, 100),
      latency(point.toAnswer, 99), Figures.decimal(point.notificationsPerBatch), Figures.percent(point.batchFill),
      Figures.bytes(point.bytesPerTLSRecord), Figures.bytes(Double(point.peakMemoryByteCount)),
    ]
  }
}

/// Sentences that the table and the page share.
enum BenchText {
  static func headline(_ report: BenchReport) -> String {
    var base = report.plan.sweep.base
    // The stream limit is named even if the first transport is the binary protocol.
    if report.plan.sweep.transports.contains(.http2) { base.transport = .http2 }
    let swept = report.plan.sweep.swept
    let fixed = report.plan.sweep.variables.filter { $0 != .transport && !swept.contains($0) }.map {
      "\($0.rawValue) \($0.text(base))"
    }.joined(separator: ", ")
    return "\(target(report)), \(transports(report))" + (fixed.isEmpty ? "" : "; \(fixed)")
  }

  private static func transports(_ report: BenchReport) -> String {
    report.plan.sweep.transports.map { transport in
      switch transport {
      case .binary: "binary protocol, command \(report.plan.command.rawValue)"
      case .http2: "HTTP/2"
      }
    }.joined(separator: " and ")
  }

  static func target(_ report: BenchReport) -> String {
    switch report.plan.target {
    case .simulator: "Built-in simulator on this machine"
    case .gateway(let endpoint): "Gateway \(endpoint)"
    }
  }

  static func machine(_ machine: BenchMachine) -> String {
    "\(machine.coreCount) × \(machine.processor), \(Figures.bytes(Double(machine.memoryByteCount))) of memory, "
      + "Linux \(machine.kernel)"
  }

  static func notes(_ report: BenchReport) -> [String] {
    var notes: [String] = []
    let isOpen = report.points.contains { $0.settings.rate != nil }
    notes.append(
      isOpen
        ? "Latencies with a rate count from the moment a notification was due, whether or not the sender was "
          + "ready for it."
        : "Latencies count from the moment a notification was handed to the engine. Its queues were always "
          + "full."
    )
    if let trickle = report.plan.trickle {
      notes.append(
        "Another app sent \(Figures.decimal(trickle)) notifications per second meanwhile. From due time to "
          + "socket:"
      )
      for point in report.points {
        guard let latency = point.trickleToSocket else { continue }
        let figures = [50, 99, 100].map {
          "\($0 == 100 ? "max" : "p\(Int($0))") \(Figures.time(Double(latency.at($0))))"
        }.joined(separator: ", ")
        notes.append("  \(description(point.settings)): \(figures)")
      }
    }
    notes.append(
      "CPU and memory are the sender's alone; a gateway on the same machine still competes with it for the cores.")
    for point in report.points where point.counters.unsent > 0 {
      notes.append(
        "\(description(point.settings)): \(NumberText.grouped(point.counters.unsent)) were due and never sent: the "
          + "rate is higher than this machine can send."
      )
    }
    if let accepted = report.simulatorAccepted {
      notes.append(
        report.agrees
          ? "The simulator has accepted \(NumberText.grouped(accepted)) notifications, exactly as many as the "
            + "accounts say."
          : "The simulator has accepted \(NumberText.grouped(accepted)) notifications, but the accounts say "
            + "\(NumberText.grouped(report.accepted))."
      )
    }
    if report.isInterrupted {
      notes.append(
        "Interrupted: \(report.points.count) of \(report.plan.sweep.points.count) points were measured, the last "
          + "one only in part."
      )
    }
    return notes
  }

  /// A point in words.
  static func description(_ settings: BenchSettings) -> String {
    BenchSweep(transports: [settings.transport], latencies: [settings.latency]).variables.map {
      "\($0.rawValue) \($0.text(settings))"
    }.joined(separator: ", ")
  }
}
