internal import PushWire

/// Why something that was asked of Carillon did not happen.
///
/// Every call of the library that fails throws this type: ``code`` is for programs, ``message`` for
/// people. That a gateway rejects a notification is no error: it is the notification's outcome.
///
/// ```swift
/// do throws(CarillonError) {
///   _ = try await app.send(hello, to: token)
/// } catch {
///   if error.code == .gateway { logger.warning("the app has stopped: \(error)") }
/// }
/// ```
public struct CarillonError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The kind of an error. More kinds may be added, so a `switch` needs a `default`.
  public struct ErrorCode: Hashable, Sendable, CustomStringConvertible {
    private enum Kind: String, Hashable, Sendable {
      case configuration, credential, payload, audience, list, journal, journalContent, gateway, refused, incomplete
      case cancelled, output, inconsistency
    }

    private let kind: Kind

    private init(_ kind: Kind) { self.kind = kind }

    /// The settings are wrong or contradict each other, or a configuration file cannot be read.
    public static let configuration = ErrorCode(.configuration)
    /// A certificate, a key or a passphrase cannot be read, has expired, does not belong together
    /// with its counterpart, or can be read by other users.
    public static let credential = ErrorCode(.credential)
    /// A payload cannot be sent as what it is meant to be.
    public static let payload = ErrorCode(.payload)
    /// A token file, or whatever else yields recipients, cannot be opened or read to its end.
    public static let audience = ErrorCode(.audience)
    /// A list of single notifications cannot be opened, or the list of an earlier run cannot be
    /// read.
    public static let list = ErrorCode(.list)
    /// A journal cannot be opened, is damaged, belongs to another process, or can no longer be
    /// written.
    public static let journal = ErrorCode(.journal)
    /// A journal can be read, but what it holds does not allow what was asked for: there is no
    /// journal, an earlier campaign is unfinished, there is nothing to resume, or the files of the
    /// campaign have changed since it began.
    public static let journalContent = ErrorCode(.journalContent)
    /// A gateway cannot be reached, does not answer, or ends its connections.
    public static let gateway = ErrorCode(.gateway)
    /// A service has answered, and refuses a request that is not a notification.
    public static let refused = ErrorCode(.refused)
    /// What was read may not be all: the service ended the connection before the end of its list.
    public static let incomplete = ErrorCode(.incomplete)
    /// It was cancelled before its end.
    public static let cancelled = ErrorCode(.cancelled)
    /// A result cannot be written to where it should go.
    public static let output = ErrorCode(.output)
    /// A mistake in Carillon itself. Please report it.
    public static let inconsistency = ErrorCode(.inconsistency)

    /// The name of the code, such as `journalContent`.
    public var description: String { kind.rawValue }
  }

  /// What kind of error it is.
  public let code: ErrorCode

  /// What is wrong and, where that helps, what to do about it: one sentence with a full stop at its
  /// end. It holds no token and no payload.
  public let message: String

  /// The message.
  public var description: String { message }

  /// Makes an error.
  ///
  /// - Parameters:
  ///   - code: its kind.
  ///   - message: a sentence. A full stop is added if it has none.
  public init(_ code: ErrorCode, _ message: String) {
    self.code = code
    self.message = message.asSentence
  }
}
