internal import Carillon

extension AccountSnapshot {
  /// 0 when every notification was accepted, 1 otherwise.
  var exitStatus: ExitStatus { apps.allSatisfy { $0.account.accepted == $0.account.submitted } ? .success : .findings }

  /// Prints the account on standard output, or on standard error if that cannot be written. Returns
  /// why it could not, in a sentence: whoever reads standard output must not take nothing for
  /// success.
  func show(json: Bool) -> String? {
    let text = json ? AccountJSON.text(self) : AccountTable.text(self)
    guard let problem = StandardStream.output.writeText(text) else { return nil }
    StandardStream.error.writeLine(text)
    return "the account cannot be written to standard output: \(problem); it is on standard error"
  }
}
