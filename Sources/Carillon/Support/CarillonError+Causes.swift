internal import PushEngine
internal import PushTransport

extension CarillonError {
  /// The same as `error` says. Errors of files and settings keep their kind; any other is a mistake
  /// in Carillon, or the system's.
  package init(describing error: any Error) {
    self =
      switch error {
      case let error as CarillonError: error
      case let error as ConfigurationError: CarillonError(.configuration, error.description)
      case let error as AudienceError: CarillonError(.audience, error.description)
      case let error as CredentialError: CarillonError(.credential, error.description)
      case let error as JournalProblem: CarillonError(.journal, "\(error)")
      case let error as UnsyncedList: CarillonError(.output, "\(error)")
      case is CancellationError: CarillonError(.cancelled, "cancelled before the end")
      default: CarillonError(.inconsistency, "\(error)")
      }
  }
}

/// Runs `body`, of which every error becomes a ``CarillonError``.
package func describingErrors<Result>(_ body: () throws -> Result) throws(CarillonError) -> Result {
  do {
    return try body()
  } catch {
    throw CarillonError(describing: error)
  }
}

/// As above.
package func describingErrors<Result>(
  _ body: () async throws -> Result
) async throws(CarillonError) -> Result {
  do {
    return try await body()
  } catch {
    throw CarillonError(describing: error)
  }
}
