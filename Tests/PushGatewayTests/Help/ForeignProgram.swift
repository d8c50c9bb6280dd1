internal import Foundation

/// Programs that are not part of this project.
enum ForeignProgram {
  struct Ending: Sendable {
    let status: Int32
    /// Standard output and standard error.
    let text: String
  }

  /// Runs the program to its end.
  static func run(_ name: String, _ arguments: [String]) async throws -> Ending {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = [name] + arguments
    let output = Pipe()
    process.standardOutput = output
    process.standardError = output
    process.standardInput = FileHandle.nullDevice
    return try await withCheckedThrowingContinuation { continuation in
      process.terminationHandler = { process in
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        continuation.resume(returning: Ending(status: process.terminationStatus, text: text))
      }
      do { try process.run() } catch { continuation.resume(throwing: error) }
    }
  }
}
