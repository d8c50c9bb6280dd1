internal import Foundation
internal import PushTransport
package import PushWire

/// Where entries of the feedback service are written to. Both calls return the system's reason if
/// they fail.
package protocol FeedbackOutput: Sendable {
  /// Writes one entry. When it returns, the entry survives the process.
  func write(_ tuple: FeedbackTuple) -> String?
  /// Puts what was written onto the disk, if it goes to one.
  func synchronise() -> String?
  /// No more entries should come before ``FeedbackReader/resume()`` is called.
  var isFull: Bool { get }
}

extension FeedbackOutput {
  package var isFull: Bool { false }
}

extension FeedbackTuple {
  /// The first line of a list as CSV.
  package static let csvHeader = "timestamp,token\n"

  /// The entry as a line, with its line end.
  package func line(json: Bool) -> String {
    guard json else { return "\(timestamp),\(token)\n" }
    return JSONWriter.text {
      $0.field("timestamp", timestamp)
      $0.field("token", "\(token)")
    } + "\n"
  }
}

/// A file to which entries are appended, each in a write of its own.
package final class FeedbackFile: FeedbackOutput {
  private let descriptor: Int32
  private let json: Bool

  /// Opens the file, or makes it. A file that is empty gets the header of CSV.
  ///
  /// - Parameters:
  ///   - json: lines of JSON instead of CSV.
  ///   - title: how errors begin; nil: with the path.
  package init(path: String, json: Bool, title: String? = nil) throws(CarillonError) {
    self.json = json
    do throws(OutputFile.Problem) {
      descriptor = try OutputFile.open(path, flags: O_APPEND)
    } catch {
      throw CarillonError(.list, "\(title ?? path) cannot be written: \(error.text)")
    }
    guard !json, lseek(descriptor, 0, SEEK_END) <= 0, let problem = write(FeedbackTuple.csvHeader) else { return }
    throw CarillonError(.output, "The output cannot be written: \(problem)")
  }

  deinit { close(descriptor) }

  package func write(_ tuple: FeedbackTuple) -> String? { write(tuple.line(json: json)) }

  /// Writes a line as it stands.
  package func write(_ line: String) -> String? { OutputFile.write(Array(line.utf8), to: descriptor) }

  package func synchronise() -> String? {
    let code = sync()
    return code == 0 ? nil : SystemCall.reason(code)
  }

  /// The same, with the `errno`; 0 for success.
  package func sync() -> Int32 { OutputFile.sync(descriptor) }
}
