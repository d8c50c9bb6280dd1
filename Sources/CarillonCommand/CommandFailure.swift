internal import Carillon
internal import PushEngine
internal import PushGateway
internal import PushServer
internal import PushTransport

/// How a command ends, for the shell (design.md, "What a person sees").
enum ExitStatus: Int32, Error {
  case success = 0
  /// It ran, and the answer is not all good: rejections or unknowns, an expired certificate, a payload that would be refused.
  case findings = 1
  /// The flags, a file or the configuration are wrong.
  case usage = 2
  case couldNotRun = 3
}

/// Why a command ends early, in one sentence for people.
struct CommandFailure: Error {
  let status: ExitStatus
  let sentence: String

  static func usage(_ sentence: String) -> CommandFailure { CommandFailure(status: .usage, sentence: sentence.asSentence) }
  static func couldNotRun(_ sentence: String) -> CommandFailure { CommandFailure(status: .couldNotRun, sentence: sentence.asSentence) }

  /// Files and settings that are wrong are usage; what the network or the system refuses is not.
  static func describing(_ error: any Error) -> CommandFailure {
    switch error {
    case let failure as CommandFailure: failure
    case let error as ConfigurationError: .usage(error.description)
    case let error as AudienceError: .usage(error.description)
    case let error as CredentialError: .usage(error.description)
    case let error as FaultRulesError: .usage(error.description)
    case let error as RecordFileError: .usage(error.description)
    case let error as JournalProblem: .couldNotRun("\(error)")
    case let error as SimulatorError: .couldNotRun(error.description)
    default: .couldNotRun("\(error)")
    }
  }
}

/// Runs `body`, whose errors become failures.
func failingLater<Result>(_ body: () async throws -> Result) async throws -> Result {
  do {
    return try await body()
  } catch {
    throw CommandFailure.describing(error)
  }
}

/// Runs `body`, whose errors become failures that name `flag`, if one is given.
func failing<Result>(flag: String? = nil, _ body: () throws -> Result) throws -> Result {
  do {
    return try body()
  } catch {
    let failure = CommandFailure.describing(error)
    guard let flag else { throw failure }
    throw CommandFailure(status: failure.status, sentence: "\(flag): \(failure.sentence)")
  }
}

extension String {
  /// With a full stop at its end, unless it has one.
  var asSentence: String {
    guard let last, !".?!".contains(last) else { return self }
    return self + "."
  }

  /// As it can be pasted into a shell.
  var asShellWord: String {
    let isPlain = !isEmpty && utf8.allSatisfy { UInt8(ascii: "a")...UInt8(ascii: "z") ~= $0 | 0x20 || "0123456789/._-+=:,@%".utf8.contains($0) }
    return isPlain ? self : "'" + replacing("'", with: "'\\''") + "'"
  }
}
