package import PushWire
internal import Synchronization

/// Whose tokens they are: what the service counts by.
package struct ProviderTokenOwner: Hashable, Sendable {
  package let teamIdentifier: String
  package let keyIdentifier: String
  /// Such as `production` or `sandbox`, or a gateway's address.
  package let environment: String

  package init(teamIdentifier: String, keyIdentifier: String, environment: String) {
    self.teamIdentifier = teamIdentifier
    self.keyIdentifier = keyIdentifier
    self.environment = environment
  }
}

/// A token in use.
package struct ProviderToken: Hashable, Sendable {
  package let generation: UInt64
  /// The value of the header `authorization`: `bearer eyJ…`.
  package let authorization: String
}

/// The tokens of one key in one environment, shared by every app and connection of the process (``ProviderTokenMachine`` decides).
///
/// Ask it when a connection opens, when a token was refused, and now and then while sending: asking costs a mutex.
package final class ProviderTokenSource: Sendable {
  package enum Lookup: Hashable, Sendable {
    case token(ProviderToken)
    /// None can be used, and none may be made before this.
    case wait(until: Instant)
    /// OpenSSL could not sign.
    case failed(CredentialError)
  }

  private struct State {
    var machine: ProviderTokenMachine
    var present: ProviderToken?
    var mintedCount = 0
  }

  package let owner: ProviderTokenOwner
  private let key: ProviderKey
  private let state: Mutex<State>

  package init(key: ProviderKey, environment: String, policy: ProviderTokenMachine.Policy = .init()) {
    owner = ProviderTokenOwner(teamIdentifier: key.teamIdentifier, keyIdentifier: key.keyIdentifier, environment: environment)
    self.key = key
    state = Mutex(State(machine: ProviderTokenMachine(policy: policy)))
  }

  /// How many tokens have been made.
  package var mintedCount: Int { state.withLock { $0.mintedCount } }
  /// The service's clock less ours, in seconds, as far as it has been noticed.
  package var clockCorrection: Int64 { state.withLock { $0.machine.correction } }

  /// The token for requests now; makes one if it is time.
  package func token(now: Instant, unixSeconds: Int64) -> Lookup {
    state.withLock { state in
      switch state.machine.token(now: now, unixSeconds: unixSeconds) {
      case .wait(let until): return .wait(until: until)
      case .use:
        if let present = state.present { return .token(present) }
        preconditionFailure("a token in use that was never made")
      case .mint(let issuedAt):
        let text: String
        do throws(CredentialError) {
          text = try key.token(issuedAt: issuedAt)
        } catch {
          return .failed(error)
        }
        state.machine.minted(issuedAt: issuedAt, now: now)
        state.mintedCount += 1
        let token = ProviderToken(generation: state.machine.generation, authorization: "bearer \(text)")
        state.present = token
        return .token(token)
      }
    }
  }

  /// The service has taken a request with the token of this generation. Once per connection and generation is enough.
  package func accepted(generation: UInt64) {
    state.withLock { $0.machine.accepted(generation: generation) }
  }

  /// The service has complained; see ``ProviderTokenMachine/complained(_:generation:date:now:unixSeconds:)``.
  package func complained(
    _ complaint: ProviderTokenMachine.Complaint, generation: UInt64, date: Int64?, now: Instant, unixSeconds: Int64
  ) -> ProviderTokenMachine.Reaction {
    state.withLock { $0.machine.complained(complaint, generation: generation, date: date, now: now, unixSeconds: unixSeconds) }
  }
}

/// All sources of a process: one for each owner, so that apps that share a key share its token.
///
/// Roll-over: an app whose key is replaced asks for the new key's source and uses it for its new connections. The old source lives for as long as
/// connections of the old key do; neither has to wait for the other.
package final class ProviderTokenRegistry: Sendable {
  private struct Entry {
    var fingerprint: String
    var source: ProviderTokenSource
  }

  private let sources = Mutex<[ProviderTokenOwner: Entry]>([:])

  package init() {}

  /// The source for a key in an environment: the one that is there, unless the owner's key has become another one.
  package func source(for key: ProviderKey, environment: String) -> ProviderTokenSource {
    let owner = ProviderTokenOwner(teamIdentifier: key.teamIdentifier, keyIdentifier: key.keyIdentifier, environment: environment)
    return sources.withLock { sources in
      if let entry = sources[owner], entry.fingerprint == key.fingerprint { return entry.source }
      let source = ProviderTokenSource(key: key, environment: environment)
      sources[owner] = Entry(fingerprint: key.fingerprint, source: source)
      return source
    }
  }
}
