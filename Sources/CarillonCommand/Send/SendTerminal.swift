internal import Carillon
internal import Foundation
internal import PushEngine
internal import PushSend
internal import PushWire

/// The terminal of `carillon send`: progress, signals, the account and the exit status.
struct SendTerminal: Sendable {
  /// One JSON object on standard output instead of a table.
  let json: Bool
  let opened: SendJournal?

  /// How long the command waits after a second signal before it looks whether connections close.
  private static let closingTime = Duration.seconds(5)
  /// How often it looks while they do.
  private static let closingLooks = 6

  /// Sends everything and prints the account.
  ///
  /// - Throws: the exit status when it is not 0, or why nothing could be sent.
  func run(_ send: Send, at unixSeconds: UInt32) async throws {
    let ending = try await send.run(opened, at: unixSeconds, notice: { Self.say($0.asSentence) }, alongside: watch)
    // Closing the journal removes the accounts of ended campaigns, so the account is printed first:
    // after a kill in between, resuming prints it again.
    // If nothing was sent, people need only the reason. Machines always get an object.
    let unwritten = json || !ending.failedBeforeSending ? ending.account.show(json: json) : nil
    let unjournalled = unwritten == nil ? await closeJournal() : nil
    let problems = ending.listProblems + [unwritten, ending.failures.isEmpty ? unjournalled : nil].compactMap { $0 }
    try finish(ending, incomplete: problems, isShown: unwritten == nil)
    // There are unread tokens, even if all notifications were accepted.
    if ending.wasInterrupted { throw ExitStatus.findings }
  }

  /// A text that ends with a command has no full stop, so that it can be copied.
  private static func say(_ text: String) { StandardStream.error.writeLine("carillon: \(text)") }

  /// Returns a sentence if that fails.
  private func closeJournal() async -> String? {
    do throws(CarillonError) {
      try await opened?.close()
      return nil
    } catch { return error.message }
  }

  // MARK: While it runs

  /// Shows progress, and stops at signals.
  private func watch(_ running: Send) async {
    let ending = OnceFlag()
    let watch = SignalWatch { count in
      // The terminal has echoed ^C into the progress line.
      if StandardStream.error.isTerminal { _ = StandardStream.error.write(Array("\r\u{1B}[K".utf8)) }
      switch count {
      case 1:
        Self.say("stopping: waiting for notifications in flight; interrupt again to stop at once")
        running.cancel()
      case 2:
        Self.say("closing every connection: notifications in flight become unknown")
        running.closeConnections()
        stopSoon(running, ending, known: running.account.asIfOver.inFlightCount)
      default: stopHere(running, ending)
      }
    }
    defer { watch.stop() }
    await showProgress(of: running)
    guard !ending.begin() else { return }
    // stopHere(_:_:) is about to exit the process.
    while true { sleep(3600) }
  }

  /// A busy machine takes its time to list what was in flight: it is waited for while it gets less.
  private func stopSoon(_ running: Send, _ ending: OnceFlag, known: Int, looks: Int = closingLooks) {
    SignalWatch.after(Self.closingTime) {
      let left = running.account.asIfOver.inFlightCount
      guard looks > 1, left > 0, left < known else { return stopHere(running, ending) }
      stopSoon(running, ending, known: left, looks: looks - 1)
    }
  }

  /// For connections that do not close in time, or a third signal.
  private func stopHere(_ running: Send, _ ending: OnceFlag) {
    guard ending.begin() else { return }
    let (account, inFlightCount) = running.account.asIfOver
    let isShown = account.show(json: json) == nil
    running.finishLists()
    if inFlightCount > 0 {
      Self.say(
        "stopped at once: \(inFlightCount) notifications were still in flight; they become unknown, and are not "
          + "listed")
    }
    if let opened { Self.say("unsent notifications stay in the journal; resume with \(opened.resumeCommand)") }
    (isShown ? ExitStatus.findings : .couldNotRun).end()
  }

  /// Until the task is cancelled.
  private func showProgress(of running: Send) async {
    let stream = StandardStream.error
    var display = ProgressDisplay(stream.isTerminal ? .terminal(columns: stream.columnCount) : .log)
    while !Task.isCancelled {
      if let text = display.update(running.progress) { _ = stream.write(Array(text.utf8)) }
      try? await Task.sleep(for: .milliseconds(100))
    }
    _ = stream.write(Array(display.clear().utf8))
  }

  // MARK: Ending

  /// - Parameters:
  ///   - incomplete: sentences about lists, journal or account that could not be written.
  ///   - isShown: false: the account did not reach standard output.
  private func finish(_ ending: SendEnding, incomplete: [String], isShown: Bool) throws {
    let (audiences, failures, account) = (ending.audienceProblems, ending.failures, ending.account)
    // A failed journal stops every app, and is reported once for all.
    let stopped = failures.isEmpty ? nil : opened?.journal.failure
    let others = failures.filter { $0.reason != stopped }.map { "\($0.app) stopped: \($0.reason)" }
    for problem in audiences.map(\.description) + others + incomplete { Self.say(problem.asSentence) }
    if let opened {
      if let stopped {
        Self.say("\(stopped); sending has stopped. When the cause is removed, resume with \(opened.resumeCommand)")
      } else if ending.wasInterrupted || !failures.isEmpty || !audiences.isEmpty {
        Self.say("unsent notifications stay in the journal; resume with \(opened.resumeCommand)")
      }
    }
    if !isShown || ending.failedBeforeSending { throw ExitStatus.couldNotRun }
    if !audiences.isEmpty, account.apps.allSatisfy({ $0.account.submitted == 0 }) { throw ExitStatus.usage }
    if !failures.isEmpty || !audiences.isEmpty || !incomplete.isEmpty { throw ExitStatus.findings }
    if account.exitStatus != .success { throw account.exitStatus }
  }
}
