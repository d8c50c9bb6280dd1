internal import PushTransport
internal import Synchronization

/// Dials with the credential that the app has at present.
final class DialerSwitch: Dialer {
  private let present: Mutex<any Dialer>

  init(_ dialer: any Dialer) { present = Mutex(dialer) }

  func replace(_ dialer: any Dialer) { present.withLock { $0 = dialer } }

  func dial(on loop: any Loop, delegate: any LinkDelegate) -> any Link {
    present.withLock { $0 }.dial(on: loop, delegate: delegate)
  }
}
