internal import Foundation

/// What this process has used of the processor so far, in seconds.
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

/// The most memory that this process has had in use, in bytes.
enum PeakMemory {
  /// Starts anew from what is in use now, where the system allows it.
  static func reset() {
    guard let file = unsafe fopen("/proc/self/clear_refs", "w") else { return }
    unsafe fputs("5", file)
    unsafe fclose(file)
  }

  /// Resident, at its highest since ``reset()``; 0 if the system does not say.
  static var byteCount: Int { field("VmHWM") }

  private static func field(_ name: String) -> Int {
    guard let text = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8) else { return 0 }
    for line in text.split(separator: "\n") where line.hasPrefix(name + ":") {
      return (Int(line.filter(\.isNumber)) ?? 0) * 1024
    }
    return 0
  }
}

/// The machine that the figures belong to.
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
