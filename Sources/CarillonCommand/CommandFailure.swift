internal import Carillon
internal import PushEngine
internal import PushGateway
internal import PushTransport

/// How a command ends, for the shell (SendYourFirstCampaign.md, "Exit status").
enum ExitStatus: Int32, Error {
  case success = 0
  /// It ran, and the answer is not all good: rejections or unknowns, an expired certificate, a
  /// payload that would be refused.
  case findings = 1
  /// The flags, a file or the configuration are wrong.
  case usage = 2
  case couldNotRun = 3
}

extension ExitStatus {
  /// What the library's errors mean to a shell. Files and settings that are wrong are usage; what
  /// the network or the system refuses is not.
  init(_ code: CarillonError.Code) {
    switch code {
    case .configuration, .credential, .payload, .audience, .list, .journalContent: self = .usage
    case .refused, .incomplete: self = .findings
    default: self = .couldNotRun
    }
  }
}

/// Why a command ends early, in one sentence for people.
struct CommandFailure: Error {
  let status: ExitStatus
  let sentence: String

  static func usage(_ sentence: String) -> CommandFailure {
    CommandFailure(status: .usage, sentence: sentence.asSentence)
  }
  static func couldNotRun(_ sentence: String) -> CommandFailure {
    CommandFailure(status: .couldNotRun, sentence: sentence.asSentence)
  }

  /// Files and settings that are wrong are usage; what the network or the system refuses is not.
  static func describing(_ error: any Error) -> CommandFailure {
    switch error {
    case let failure as CommandFailure: failure
    case let error as CarillonError: CommandFailure(status: ExitStatus(error.code), sentence: error.message)
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
  do { return try await body() } catch { throw CommandFailure.describing(error) }
}

/// Runs `body`, whose errors become failures that name `flag`, if one is given.
func failing<Result>(flag: String? = nil, _ body: () throws -> Result) throws -> Result {
  do { return try body() } catch {
    let failure = CommandFailure.describing(error)
    guard let flag else { throw failure }
    throw CommandFailure(status: failure.status, sentence: "\(flag): \(failure.sentence)")
  }
}
