internal import Carillon
internal import PushEngine
internal import PushWire

/// A benchmark's results as JSON, in the form that `carillon bench --help` describes.
package enum BenchJSON {
  package static func text(_ report: BenchReport) -> String {
    return JSONWriter.text {
      $0.object("machine") {
        $0.field("processor", report.machine.processor)
        $0.field("cores", report.machine.coreCount)
        $0.field("memoryBytes", report.machine.memoryByteCount)
        $0.field("kernel", report.machine.kernel)
      }
      switch report.plan.target {
      case .simulator: $0.field("target", "simulator")
      case .gateway(let endpoint): $0.field("target", "\(endpoint)")
      }
      // The base's transport; each point has its own.
      $0.field("transport", report.plan.sweep.base.transport.rawValue)
      if report.plan.sweep.transports.contains(.binary) { $0.field("command", Int(report.plan.command.rawValue)) }
      $0.field("threads", report.plan.threads)
      if let trickle = report.plan.trickle { $0.field("trickle", trickle) }
      $0.field("swept", report.plan.sweep.swept.map(\.rawValue))
      $0.array("points", report.points) { point, json in write(point, to: &json) }
      if let accepted = report.simulatorAccepted {
        $0.field("simulatorAccepted", accepted)
        $0.field("agreesWithSimulator", report.agrees)
      }
      $0.field("complete", !report.isInterrupted)
    }
  }

  private static func write(_ point: BenchPoint, to json: inout JSONWriter) {
    json.object("settings") {
      $0.field("transport", point.settings.transport.rawValue)
      $0.field("apps", point.settings.apps)
      $0.field("connections", point.settings.connections)
      if point.settings.transport == .http2 { $0.field("streams", point.settings.streams) }
      $0.field("batchBytes", point.settings.batchByteCount)
      $0.field("payloadBytes", point.settings.payloadByteCount)
      // A closed loop has no rate.
      if let rate = point.settings.rate { $0.field("rate", rate) }
      $0.field("latencyMilliseconds", point.settings.latency.inSeconds * 1e3)
    }
    json.field("seconds", point.seconds)
    json.field("notifications", point.notificationCount)
    json.field("perSecond", point.perSecond)
    json.object("cpuMicrosecondsPerNotification") {
      $0.field("user", point.userMicroseconds)
      $0.field("system", point.systemMicroseconds)
    }
    json.object("latencyMicroseconds") {
      write(point.toSocket, "toSocket", to: &$0)
      write(point.toAnswer, "toAnswer", to: &$0)
      write(point.trickleToSocket, "trickleToSocket", to: &$0)
    }
    json.object("batches") {
      $0.field("count", point.counters.batches)
      $0.field("notifications", point.notificationsPerBatch)
      $0.field("bytes", point.bytesPerBatch)
      $0.field("fill", point.batchFill)
    }
    json.field("bytesPerTLSRecord", point.bytesPerTLSRecord)
    json.field("peakMemoryBytes", point.peakMemoryByteCount)
    json.field("neverSent", point.counters.unsent)
    json.object("account") {
      $0.field("submitted", point.account.submitted)
      $0.field("confirmed", point.account.confirmed)
      $0.field("quiet", point.account.quiet)
      $0.field("rejected", point.account.rejectedTotal)
      $0.field("cancelled", point.account.cancelled)
      $0.field("unknown", point.account.unknown)
      $0.field("resent", point.account.resent)
    }
  }

  private static func write(_ summary: LatencySummary?, _ key: String, to json: inout JSONWriter) {
    guard let summary else { return }
    json.object(key) {
      $0.field("count", summary.count)
      $0.field("mean", summary.mean / 1e3)
      for percentile in [50, 90, 99, 99.9, 99.99] { $0.field(name(percentile), Double(summary.at(percentile)) / 1e3) }
      $0.field("max", Double(summary.at(100)) / 1e3)
    }
  }

  /// p50, p99, p99.9.
  package static func name(_ percentile: Double) -> String {
    percentile == percentile.rounded() ? "p\(Int(percentile))" : "p\(percentile)"
  }
}
