internal import Carillon
internal import Foundation
internal import PushWire
internal import Synchronization

/// Standard output and error without a buffer: a reader has the bytes when the call returns.
final class StandardStream: Sendable {
  static let output = StandardStream(STDOUT_FILENO)
  static let error = StandardStream(STDERR_FILENO)

  private let descriptor: Int32
  /// Held during a write, so that lines do not mix. Its value is the reason of the first failure.
  private let failure = Mutex<String?>(nil)

  init(_ descriptor: Int32) { self.descriptor = descriptor }

  /// Opens `/dev/null` for standard streams that are closed. Without this, the next file or socket
  /// would get the number of standard output, and the account would be written to it. Call it first
  /// of all.
  static func occupyClosedDescriptors() {
    for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) < 0 && errno == EBADF {
      // The system uses the lowest free number, which is this one. As on a closed stream, output
      // cannot be written and input cannot be read.
      _ = unsafe open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY)
    }
  }

  var isTerminal: Bool { isatty(descriptor) == 1 }

  /// The width of the terminal in columns; 80 when it is not known.
  var columnCount: Int { size.map { Int($0.ws_col) } ?? 80 }

  /// The height of the terminal; nil when it is not known.
  var rowCount: Int? { size.flatMap { $0.ws_row > 0 ? Int($0.ws_row) : nil } }

  private var size: winsize? {
    var size = winsize()
    guard unsafe ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
    return size
  }

  /// The system's reason why a write failed; nil: all writes succeeded.
  var problem: String? { failure.withLock { $0 } }

  /// Writes a line. A failure does not stop the command: ``problem`` keeps it for the exit status.
  func writeLine(_ line: String) { _ = writeText(line) }

  /// Writes text and a line end. Control characters other than line ends and tabs are escaped.
  /// Returns the system's reason if that fails.
  func writeText(_ text: String) -> String? { write(Array((text.withControlsEscaped + "\n").utf8)) }

  /// Writes all of `bytes`. Returns the system's reason if that fails.
  func write(_ bytes: [UInt8]) -> String? {
    failure.withLock { problem in
      let reason = OutputFile.write(bytes, to: descriptor)
      problem = problem ?? reason
      return reason
    }
  }
}
