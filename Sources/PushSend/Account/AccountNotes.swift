internal import Carillon
package import PushEngine
package import PushWire

/// What of a token file was never taken in, for the account.
package struct UnreadPart: Hashable, Sendable {
  /// The file as the user named it; `-` is standard input.
  package var tokens: String
  package var unread: AudienceUnread

  package func write(to json: inout JSONWriter) {
    json.field("tokens", tokens)
    json.field("fromLine", unread.line)
    if let byteCount = unread.byteCount { json.field("bytes", byteCount) }
    if let fileByteCount = unread.fileByteCount { json.field("ofBytes", fileByteCount) }
  }

  /// One sentence without its full stop.
  package var sentence: String {
    let file = tokens == "-" ? "standard input" : tokens
    guard let byteCount = unread.byteCount, let fileByteCount = unread.fileByteCount, fileByteCount > 0 else {
      return "never read: what comes in line \(NumberText.grouped(Int(clamping: unread.line))) of \(file) and after it"
    }
    let percent = NumberText.percent(Double(byteCount) / Double(fileByteCount))
    guard let lineCount = unread.estimatedLineCount else {
      return "never read: \(file), from line \(unread.line) on (\(percent) of its bytes)"
    }
    let total = Int(clamping: unread.line) - 1 + lineCount
    return "never read: about \(NumberText.grouped(lineCount)) of \(NumberText.grouped(total)) lines of \(file), "
      + "from line \(NumberText.grouped(Int(clamping: unread.line))) on (\(percent) of its bytes)"
  }
}

extension AccountSnapshot.App {
  /// Adds what the app's status and its campaigns say beside numbers.
  mutating func note(_ app: App?, unread: [UnreadPart]) {
    neverRead = unread
    guard let app else { return }
    failure = app.failure
    let (listed, unlistedCount) = app.status.notes
    notes += listed.map { note in
      let span = note.last.since(note.first)
      let times =
        note.count == 1 ? "once" : "\(NumberText.grouped(note.count)) times within \(max(.seconds(1), span).spoken)"
      return "\(note.cause) (\(times))"
    }
    if unlistedCount > 0 { notes.append("and \(NumberText.grouped(unlistedCount)) reports of other causes") }
  }
}
