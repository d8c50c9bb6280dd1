internal import Glibc
internal import NIOCore
package import PushWire

/// Whether a process lacks file descriptors, as its listeners find out. A value without a clock.
package struct DescriptorShortage: Sendable {
  /// Shortages that follow each other within this time are one.
  package static let quiet = Duration.seconds(60)
  /// The time between looks whether there are descriptors again.
  package static let pause = Duration.seconds(1)

  /// Listeners for clients accept nobody, and the reserve is free.
  package private(set) var isPaused = false
  /// Shortages since the process began.
  package private(set) var count = 0
  private var metAt: Instant?

  package init() {}

  /// Descriptors were lacking at present, or a moment ago.
  package func isOpen(now: Instant) -> Bool { isPaused || metAt.map { now.since($0) < Self.quiet } ?? false }

  /// A listener has found no descriptor.
  ///
  /// - Returns: whether a shortage begins, which is to be reported, and whether listeners pause.
  package mutating func met(now: Instant) -> (begins: Bool, pauses: Bool) {
    let (begins, pauses) = (!isOpen(now: now), !isPaused)
    if begins { count += 1 }
    metAt = now
    isPaused = true
    return (begins, pauses)
  }

  /// A look whether the reserve is whole again.
  package mutating func looked(isWhole: Bool, now: Instant) {
    if isWhole { isPaused = false } else { metAt = now }
  }

  /// Whether an error says that descriptors, or the kernel's memory for them, are lacking.
  package static func isCause(of error: any Error) -> Bool {
    guard let error = error as? IOError else { return false }
    return [EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(error.errnoCode)
  }

  /// Asks the system for a descriptor. The resolver of names needs some, and without any it says
  /// that it found nothing.
  ///
  /// - Returns: a sentence without its end; nil: there is one.
  package static func probe() -> String? {
    let descriptor = unsafe open("/dev/null", O_RDONLY | O_CLOEXEC)
    guard descriptor < 0 else {
      _ = close(descriptor)
      return nil
    }
    return [EMFILE, ENFILE].contains(errno)
      ? "no file descriptor is free (\(SystemCall.reason(errno))); raise the limit of open files" : nil
  }
}
