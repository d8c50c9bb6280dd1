internal import Carillon
internal import PushSend

extension AccountSnapshot {
  /// 0 when every notification was accepted, 1 otherwise.
  var exitStatus: ExitStatus { apps.allSatisfy { $0.account.accepted == $0.account.submitted } ? .success : .findings }

  /// Prints the account on standard output, or on standard error if that fails. Returns the reason
  /// for the failure, in a sentence: a reader of standard output must not take an empty output for
  /// success.
  func show(json: Bool) -> String? {
    let text = json ? AccountJSON.text(self) : AccountTable.text(self)
    guard let problem = StandardStream.output.writeText(text) else { return nil }
    StandardStream.error.writeLine(text)
    return "the account cannot be written to standard output: \(problem); it is on standard error instead"
  }
}
