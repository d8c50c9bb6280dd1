internal import Carillon
internal import Foundation
internal import PushWire
internal import Synchronization

/// Shows on standard error how much of a file was sent: on a terminal as a line that changes, in a
/// log as a line every five seconds.
final class UploadDisplay: Sendable {
  /// When something was shown last; nil: nothing was shown yet.
  private let shownAt = Mutex<Duration?>(nil)
  /// Nil: not known, as of standard input.
  private let byteCount: Int?
  private let stream: StandardStream
  private let began = ContinuousClock.now

  /// Shows the progress of an upload.
  ///
  /// - Parameters:
  ///   - file: what is uploaded; `-` is standard input.
  ///   - upload: gets a function to call with the bytes that were sent so far.
  static func during<Result>(
    _ file: String, _ upload: (@escaping @Sendable (Int) -> Void) async throws -> Result
  ) async rethrows -> Result {
    let display = UploadDisplay(file)
    defer { display.clear() }
    return try await upload { display.sent($0) }
  }

  private init(_ file: String) {
    stream = .error
    let attributes = file == "-" ? nil : try? FileManager.default.attributesOfItem(atPath: file)
    byteCount = (attributes?[.size] as? NSNumber).map(\.intValue)
  }

  private func sent(_ byteCount: Int) {
    let elapsed = ContinuousClock.now - began
    let interval: Duration = stream.isTerminal ? .milliseconds(200) : .seconds(5)
    let isDue = shownAt.withLock { shownAt in
      guard elapsed >= (shownAt ?? .zero) + interval else { return false }
      shownAt = elapsed
      return true
    }
    guard isDue else { return }
    let line = Self.line(byteCount, of: self.byteCount, in: elapsed)
    if stream.isTerminal { _ = stream.write(Array("\r\(line)\u{1B}[K".utf8)) } else { stream.writeLine(line) }
  }

  private func clear() {
    guard stream.isTerminal, shownAt.withLock({ $0 }) != nil else { return }
    _ = stream.write(Array("\r\u{1B}[K".utf8))
  }

  /// Such as "12.0 of 20.0 MiB sent (60 %), about 4.0 s left".
  static func line(_ sent: Int, of total: Int?, in elapsed: Duration) -> String {
    func size(_ count: Int) -> String { (Double(count) / 1_048_576).formatted(.number.precision(.fractionLength(1))) }
    guard let total, total > 0, sent <= total else { return "\(size(sent)) MiB sent" }
    guard sent < total else { return "\(size(sent)) MiB sent; waiting for the service" }
    let left = elapsed / .seconds(1) / Double(max(1, sent)) * Double(total - sent)
    return "\(size(sent)) of \(size(total)) MiB sent (\(sent * 100 / total) %), about \(NumberText.seconds(left)) left"
  }
}
