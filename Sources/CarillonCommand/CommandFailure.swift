internal import Carillon
internal import Glibc
internal import PushEngine
internal import PushGateway
internal import PushServer
internal import PushTransport
internal import PushWire

/// How a command ends, for the shell (SendYourFirstCampaign.md, "Exit status").
enum ExitStatus: Int32, Error {
  case success = 0
  /// Findings, such as rejected notifications, an expired certificate, a payload that is refused.
  case findings = 1
  /// The flags, a file or the configuration are wrong.
  case usage = 2
  case couldNotRun = 3

  /// Ends the process at once. Nothing here waits to be written, and what libraries do at an
  /// ordinary end, such as OpenSSL's, may wait for other threads.
  func end() -> Never { _exit(rawValue) }
}

extension ExitStatus {
  /// The status for an error of the library. Wrong files and settings are usage errors; failures of
  /// the network or the system are not.
  init(_ code: CarillonError.ErrorCode) {
    switch code {
    case .configuration, .credential, .payload, .audience, .list, .journalContent: self = .usage
    case .refused, .incomplete: self = .findings
    default: self = .couldNotRun
    }
  }
}

/// The reason why a command ends early, in one sentence for people.
struct CommandFailure: Error {
  let status: ExitStatus
  let sentence: String
}

extension CommandFailure {
  /// An error of the library, and what the user can do about it. Without a full stop, because the
  /// advice may end with a command to copy.
  init(_ error: CarillonError, advice: String) {
    let fact = error.message.last == "." ? String(error.message.dropLast()) : error.message
    self.init(status: ExitStatus(error.code), sentence: "\(fact); \(advice)")
  }

  /// An error of the library about the value of a flag.
  init(_ error: CarillonError, flag: String) {
    self.init(status: ExitStatus(error.code), sentence: "\(flag): \(error.message)")
  }

  /// What a service refuses is wrong with the request, except when it has no room or a fault.
  init(_ failure: ServiceFailure) {
    let isWrong = failure.status.map { 400..<500 ~= $0 && $0 != 429 } ?? false
    self.init(status: isWrong ? .usage : .couldNotRun, sentence: failure.sentence.asSentence)
  }

  static func usage(_ sentence: String) -> CommandFailure {
    CommandFailure(status: .usage, sentence: sentence.asSentence)
  }
  static func couldNotRun(_ sentence: String) -> CommandFailure {
    CommandFailure(status: .couldNotRun, sentence: sentence.asSentence)
  }

  /// The failure for any error.
  static func describing(_ error: any Error) -> CommandFailure {
    switch error {
    case let failure as CommandFailure: failure
    case let error as CarillonError: CommandFailure(status: ExitStatus(error.code), sentence: error.message)
    case let error as ServiceFailure: CommandFailure(error)
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
///
/// - Parameters:
///   - flag: the sentence begins with it.
///   - code: only sentences of errors with this code begin with the flag; nil: all.
func failing<Result>(
  flag: String? = nil, for code: CarillonError.ErrorCode? = nil, _ body: () throws -> Result
) throws -> Result {
  do { return try body() } catch {
    let failure = CommandFailure.describing(error)
    guard let flag, code == nil || (error as? CarillonError)?.code == code else { throw failure }
    throw CommandFailure(status: failure.status, sentence: "\(flag): \(failure.sentence)")
  }
}
