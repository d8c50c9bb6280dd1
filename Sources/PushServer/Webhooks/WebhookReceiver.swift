internal import Carillon
internal import PushService
internal import PushTransport
internal import PushWire
internal import Synchronization

/// Posts deliveries over one connection, as long as it lasts.
final class WebhookReceiver: Sendable {
  private let webhook: Webhook
  private let clock: any ServiceClock
  private let connection = Mutex<WebhookConnection?>(nil)

  init(_ webhook: Webhook, clock: any ServiceClock) { (self.webhook, self.clock) = (webhook, clock) }

  func close() { connection.withLock { exchange(&$0, with: nil) }?.close() }

  /// - Returns: the status, from 200 to 299.
  /// - Throws: ``WebhookFailure``.
  @discardableResult
  func deliver(_ page: OutcomeFeed.Page, of app: String) async throws(WebhookFailure) -> UInt {
    let body = page.object("\"app\":\(JSONText.quoted(app)),")
    if let known = connection.withLock({ $0 }), known.isOpen {
      do throws(WebhookFailure) { return try await post(body, over: known) } catch {
        // The receiver has closed it: what it had is delivered again at worst.
        guard error.isOfOldConnection else { throw error }
      }
    }
    let opened = try await WebhookConnection.open(to: webhook, addresses: await addresses())
    connection.withLock { $0 = opened }
    return try await post(body, over: opened)
  }

  private func post(_ body: [UInt8], over connection: WebhookConnection) async throws(WebhookFailure) -> UInt {
    let secrets: [[UInt8]]
    do throws(CredentialError) { secrets = try webhook.secrets() } catch {
      throw WebhookFailure("gets nothing, because \(error)")
    }
    guard let signature = WebhookSignature.text(of: body, secrets: secrets, seconds: clock.now.seconds) else {
      throw WebhookFailure("gets nothing, because OpenSSL cannot sign")
    }
    return try await connection.post(body, to: webhook.target, signature: signature)
  }

  /// What the receiver's name leads to at present.
  private func addresses() async -> [String] {
    let host = webhook.endpoint.host
    if HostAddresses.bytes(host) != nil { return [host] }
    // The system's resolver can take half a minute. A task that is cancelled does not wait for it.
    let (answers, answer) = AsyncStream.makeStream(of: [String].self)
    clock.run {
      answer.yield(HostAddresses.resolve(host))
      answer.finish()
    }
    for await found in answers { return found }
    return []
  }
}

/// What shows a receiver that a delivery is from here.
enum WebhookSignature {
  static let header = "Carillon-Signature"

  /// `t=<seconds since 1970>,v1=<code>`: the HMAC-SHA256 of `t.body`, in hexadecimal digits; once
  /// with each secret. Nil: OpenSSL has failed.
  static func text(of body: [UInt8], secrets: [[UInt8]], seconds: Int64) -> String? {
    let signed = Array("\(seconds).".utf8) + body
    var text = "t=\(seconds)"
    for secret in secrets {
      guard let code = Digest.hmacSHA256(signed, key: secret) else { return nil }
      text += ",v1=\(Digest.hexadecimal(code))"
    }
    return text
  }
}
