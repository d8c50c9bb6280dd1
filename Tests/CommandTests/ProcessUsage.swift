internal import Foundation
internal import Support
internal import Testing

/// What a running process takes of the machine.
struct ProcessUsage {
  let process: any TestProgram

  /// Open descriptors.
  func descriptorCount() throws -> Int {
    try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process.identifier)/fd").count
  }

  /// The names of what is open.
  func openFiles() throws -> [String] {
    let folder = "/proc/\(process.identifier)/fd"
    return try FileManager.default.contentsOfDirectory(atPath: folder).compactMap {
      try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\($0)")
    }
  }

  /// What it has used of the processors.
  func processorTime() throws -> Duration {
    let status = try String(contentsOfFile: "/proc/\(process.identifier)/stat", encoding: .utf8)
    // Behind the name, which is in parentheses: the 12th and 13th, in hundredths of a second.
    let fields = try #require(status.split(separator: ")").last).split(separator: " ")
    return .milliseconds(10 * (try #require(Int(fields[11])) + #require(Int(fields[12]))))
  }

  /// How much of one core it uses, over some time.
  func share(of duration: Duration) async throws -> Double {
    let (began, used) = (ContinuousClock.now, try processorTime())
    try await Task.sleep(for: duration)
    return (try processorTime() - used) / (ContinuousClock.now - began)
  }

  /// Resident memory.
  func megabytes() throws -> Int { try megabytes("VmRSS:") }
  /// The most that it has had.
  func peakMegabytes() throws -> Int { try megabytes("VmHWM:") }

  private func megabytes(_ name: String) throws -> Int {
    let status = try String(contentsOfFile: "/proc/\(process.identifier)/status", encoding: .utf8)
    let line = try #require(status.split(separator: "\n").first { $0.hasPrefix(name) })
    return try #require(line.split(separator: " ").dropFirst().first.flatMap { Int($0) }) / 1024
  }
}
