internal import Glibc
package import PushService
internal import PushWire

/// The service manager that has started this process, such as systemd (sd_notify(3)).
package struct ServiceManager: Sendable {
  private let address: String
  private let clock: any ServiceClock
  /// How often it wants to hear that the process works; nil: never.
  let watchdogInterval: Duration?

  /// - Parameter environment: of the process.
  /// - Returns: nil if no manager asks for notifications.
  package init?(environment: [String: String], clock: any ServiceClock = MachineClock()) {
    guard let address = environment["NOTIFY_SOCKET"], address.hasPrefix("/") || address.hasPrefix("@"),
      address.utf8.count < Self.addressLimit
    else { return nil }
    (self.address, self.clock) = (address, clock)
    let isForOther = environment["WATCHDOG_PID"].map { $0 != String(getpid()) } ?? false
    let interval = environment["WATCHDOG_USEC"].flatMap { Int64($0) }.filter { $0 > 0 && !isForOther }
    watchdogInterval = interval.map { .microseconds($0) }
  }

  /// `sun_path` ends with a zero.
  private static let addressLimit = 108

  enum State {
    case ready, reloading, stopping, watchdog
  }

  /// A manager that does not listen any more is no error of this process. Nor does one that does
  /// not read hold it up: a watchdog message that finds no room is left out, because earlier ones
  /// wait to be read; others wait at most ``writeLimit``.
  func notify(_ state: State, status: String? = nil) {
    var lines: [String]
    switch state {
    case .ready: lines = ["READY=1"]
    case .reloading: lines = ["RELOADING=1", "MONOTONIC_USEC=\(clock.uptime.nanoseconds / 1000)"]
    case .stopping: lines = ["STOPPING=1"]
    case .watchdog: lines = ["WATCHDOG=1"]
    }
    if let status { lines.append("STATUS=\(status)") }
    send(lines.joined(separator: "\n"), waits: state != .watchdog)
  }

  /// The process waits, and is not stuck: neither the time for a start nor the watchdog ends it.
  func waits(status: String) { send("EXTEND_TIMEOUT_USEC=120000000\nWATCHDOG=1\nSTATUS=\(status)", waits: false) }

  /// How long a message may wait until the manager has read earlier ones.
  private static let writeLimit = timeval(tv_sec: 5, tv_usec: 0)

  private func send(_ text: String, waits: Bool) {
    let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { return }
    defer { close(descriptor) }
    var limit = Self.writeLimit
    unsafe setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    let flags = Int32(MSG_NOSIGNAL) | (waits ? 0 : Int32(MSG_DONTWAIT))
    var name = sockaddr_un()
    name.sun_family = sa_family_t(AF_UNIX)
    var bytes = Array(address.utf8)
    // An abstract name begins with a zero.
    if bytes.first == UInt8(ascii: "@") { bytes[0] = 0 }
    unsafe withUnsafeMutableBytes(of: &name.sun_path) { unsafe $0.copyBytes(from: bytes) }
    let length = socklen_t(MemoryLayout<sockaddr_un>.offset(of: \.sun_path).map { $0 + bytes.count } ?? 0)
    _ = unsafe withUnsafePointer(to: &name) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { name in
        unsafe sendto(descriptor, text, text.utf8.count, flags, name, length)
      }
    }
  }
}

extension Optional {
  fileprivate func filter(_ holds: (Wrapped) -> Bool) -> Wrapped? { flatMap { holds($0) ? $0 : nil } }
}
