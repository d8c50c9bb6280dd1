package import PushWire
internal import Synchronization

/// The owner of provider tokens. The service counts tokens by owner.
package struct ProviderTokenOwner: Hashable, Sendable {
  package let teamIdentifier: String
  package let keyIdentifier: String
  /// For example `production`, `sandbox`, or a gateway's address.
  package let environment: String

  package init(teamIdentifier: String, keyIdentifier: String, environment: String) {
    (self.teamIdentifier, self.keyIdentifier, self.environment) = (teamIdentifier, keyIdentifier, environment)
  }
}

/// A token in use.
package struct ProviderToken: Hashable, Sendable {
  package let generation: UInt64
  /// The value of the header `authorization`: `bearer eyJ…`.
  package let authorization: String
}

/// The tokens of one key in one environment. Every app and connection of the process shares them,
/// and ``ProviderTokenMachine`` decides when to make one.
///
/// It is asked when a connection opens, when a token was refused, and now and then while sending.
/// Each time costs a mutex.
package final class ProviderTokenSource: Sendable {
  package enum Lookup: Hashable, Sendable {
    case token(ProviderToken)
    /// No token can be used, and none may be made before this time.
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
    owner = ProviderTokenOwner(
      teamIdentifier: key.teamIdentifier, keyIdentifier: key.keyIdentifier, environment: environment)
    self.key = key
    state = Mutex(State(machine: ProviderTokenMachine(policy: policy)))
  }

  /// How many tokens have been made.
  package var mintedCount: Int { state.withLock { $0.mintedCount } }
  /// The service's clock minus the local one in seconds, as far as it is known.
  package var clockCorrection: Int64 { state.withLock { $0.machine.correction } }

  /// The token for requests now. Makes one if it is time.
  package func token(now: Instant, unixSeconds: Int64) -> Lookup {
    state.withLock { state in
      switch state.machine.token(now: now, unixSeconds: unixSeconds) {
      case .wait(let until): return .wait(until: until)
      case .use:
        if let present = state.present { return .token(present) }
        preconditionFailure("the token in use has not been made")
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

  /// The service has accepted a request with the token of this generation. One call per connection
  /// and generation is enough.
  package func accepted(generation: UInt64) { state.withLock { $0.machine.accepted(generation: generation) } }

  /// The service has refused a token; see
  /// ``ProviderTokenMachine/refused(_:generation:date:now:unixSeconds:)``.
  package func refused(
    _ refusal: ProviderTokenMachine.TokenRefusal, generation: UInt64, date: Int64?, now: Instant, unixSeconds: Int64
  ) -> ProviderTokenMachine.Reaction {
    state.withLock {
      $0.machine.refused(refusal, generation: generation, date: date, now: now, unixSeconds: unixSeconds)
    }
  }
}

/// All token sources of a process, one for each owner, so that apps with the same key share its
/// tokens.
///
/// An app whose key is replaced gets the new key's source and uses it for new connections. The old
/// source exists as long as connections of the old key do. Neither waits for the other.
package final class ProviderTokenRegistry: Sendable {
  private struct Entry {
    var fingerprint: String
    var source: ProviderTokenSource
  }

  private let sources = Mutex<[ProviderTokenOwner: Entry]>([:])

  package init() {}

  /// The source for a key in an environment. It is the existing one, unless the owner's key has
  /// changed.
  package func source(for key: ProviderKey, environment: String) -> ProviderTokenSource {
    let owner = ProviderTokenOwner(
      teamIdentifier: key.teamIdentifier, keyIdentifier: key.keyIdentifier, environment: environment)
    return sources.withLock { sources in
      if let entry = sources[owner], entry.fingerprint == key.fingerprint { return entry.source }
      let source = ProviderTokenSource(key: key, environment: environment)
      sources[owner] = Entry(fingerprint: key.fingerprint, source: source)
      return source
    }
  }
}
