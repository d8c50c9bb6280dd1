internal import Foundation
internal import Support
internal import Testing

/// What a running process takes of the machine.
struct ProcessUsage {
  let process: ChildProcess

  /// Open descriptors.
  func descriptorCount() throws -> Int {
    try FileManager.default.contentsOfDirectory(atPath: "/proc/\(process.identifier)/fd").count
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
