internal import Carillon
internal import Foundation
internal import PushWire
internal import Synchronization

/// Standard output and error without a buffer: what is written is there for the reader when the
/// call returns.
final class StandardStream: Sendable {
  static let output = StandardStream(STDOUT_FILENO)
  static let error = StandardStream(STDERR_FILENO)

  private let descriptor: Int32
  /// Writers on several threads take turns, so that lines stay whole. Holds why the first write
  /// failed.
  private let turn = Mutex<String?>(nil)

  init(_ descriptor: Int32) { self.descriptor = descriptor }

  /// A command may be started with a standard stream closed. The next file or socket to be opened
  /// would then get its number, and what is meant for standard output would go into it, to a
  /// gateway for instance. To be called first of all.
  static func occupyClosedDescriptors() {
    for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) < 0 && errno == EBADF {
      // The lowest free number is given out first, so it is this one. Reading it fails for output
      // and writing it for input, as on a closed stream.
      _ = unsafe open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY)
    }
  }

  var isTerminal: Bool { isatty(descriptor) == 1 }

  /// The width of the terminal in columns; 80 when it is not known.
  var columnCount: Int {
    var size = winsize()
    guard unsafe ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
    return Int(size.ws_col)
  }

  /// The system's reason why something could not be written; nil: all was.
  var problem: String? { turn.withLock { $0 } }

  /// Writes a line. A failure does not stop the command: ``problem`` keeps it for the exit status.
  func writeLine(_ line: String) { _ = writeText(line) }

  /// Writes text and a line end. Control characters other than line ends and tabs are escaped.
  /// Returns the system's reason if that fails.
  func writeText(_ text: String) -> String? { write(Array((text.withControlsEscaped + "\n").utf8)) }

  /// Writes all of `bytes`. Returns the system's reason if that fails.
  func write(_ bytes: [UInt8]) -> String? {
    turn.withLock { problem in
      let reason = OutputFile.write(bytes, to: descriptor)
      problem = problem ?? reason
      return reason
    }
  }
}
