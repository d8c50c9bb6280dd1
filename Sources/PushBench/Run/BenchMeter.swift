internal import Foundation

/// The processor time that this process has used, in seconds.
package struct ProcessorTime: Hashable, Sendable {
  package var user = 0.0
  package var system = 0.0

  package static var now: ProcessorTime {
    var usage = rusage()
    guard unsafe getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage) == 0 else { return ProcessorTime() }
    return ProcessorTime(user: seconds(usage.ru_utime), system: seconds(usage.ru_stime))
  }

  private static func seconds(_ time: timeval) -> Double { Double(time.tv_sec) + Double(time.tv_usec) / 1e6 }

  package static func - (later: ProcessorTime, earlier: ProcessorTime) -> ProcessorTime {
    ProcessorTime(user: later.user - earlier.user, system: later.system - earlier.system)
  }
}

/// The peak memory of this process, in bytes.
enum PeakMemory {
  /// Resets the peak to the present use, where the system supports it.
  static func reset() {
    guard let file = unsafe fopen("/proc/self/clear_refs", "w") else { return }
    unsafe fputs("5", file)
    unsafe fclose(file)
  }

  /// The resident memory at its peak since ``reset()``; 0 if the system does not report it.
  static var byteCount: Int {
    guard let text = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8) else { return 0 }
    for line in text.split(separator: "\n") where line.hasPrefix("VmHWM:") {
      return (Int(line.filter(\.isNumber)) ?? 0) * 1024
    }
    return 0
  }
}

/// The machine of the measurements.
package struct BenchMachine: Hashable, Sendable {
  package var processor: String
  package var coreCount: Int
  package var memoryByteCount: Int
  package var kernel: String

  package static var present: BenchMachine {
    let information = (try? String(contentsOfFile: "/proc/cpuinfo", encoding: .utf8)) ?? ""
    let model = information.split(separator: "\n").first { $0.hasPrefix("model name") }?.split(separator: ":").last
    let kernel = (try? String(contentsOfFile: "/proc/sys/kernel/osrelease", encoding: .utf8)) ?? ""
    return BenchMachine(
      processor: model.map { $0.trimmingCharacters(in: .whitespaces) } ?? "unknown processor",
      coreCount: ProcessInfo.processInfo.activeProcessorCount,
      memoryByteCount: Int(clamping: ProcessInfo.processInfo.physicalMemory),
      kernel: kernel.trimmingCharacters(in: .whitespacesAndNewlines))
  }
}
