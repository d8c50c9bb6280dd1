internal import Hummingbird
internal import NIOCore
internal import PushService
internal import PushWire

/// A stream of server-sent events (HTML, section 9.2).
struct EventStream: Sendable {
  /// How often it looks for something new.
  static let interval = Duration.milliseconds(500)
  /// How long a reader that no longer reads may take when the service ends.
  private static let endLimit = Duration.seconds(1)

  let isOpen: @Sendable () -> Bool
  /// The request's channel, to end a write that never returns.
  let channel: any Channel
  let clock: any ServiceClock

  /// - Parameter next: the text of what is new, empty if nothing is; nil: the stream ends. The
  ///   argument is the time since the stream began.
  func response(_ next: @escaping @Sendable (_ elapsed: Duration) async throws -> String?) -> Response {
    Response(
      status: .ok, headers: [.contentType: "text/event-stream", .cacheControl: "no-cache"],
      body: ResponseBody { [isOpen, channel, clock] writer in
        try await withThrowingTaskGroup(of: Void.self) { tasks in
          tasks.addTask {
            while isOpen() { try await clock.sleep(for: Self.interval) }
            try await clock.sleep(for: Self.endLimit)
            channel.close(promise: nil)
          }
          defer { tasks.cancelAll() }
          // Its client needs nothing but to stay.
          channel.triggerUserOutboundEvent(EndsWithInput(), promise: nil)
          let began = clock.uptime
          var silence = Silence(beganAt: began)
          // The reader knows that it is connected, whatever comes when.
          try await writer.write(ByteBuffer(string: ": carillon\n\n"))
          while isOpen(), channel.isActive, let text = try await next(clock.uptime.since(began)) {
            if let output = silence.output(text, now: clock.uptime) {
              try await writer.write(ByteBuffer(string: output))
              silence.beganAt = clock.uptime
            }
            try await clock.sleep(for: Self.interval)
          }
          try await writer.finish(nil)
        }
      })
  }

  /// The time since something was written.
  struct Silence: Sendable {
    var beganAt: Instant

    /// After this long, a comment shows both sides that the connection is alive.
    private static let limit = Duration.seconds(15)

    /// - Parameter text: the events that are new; empty: none.
    /// - Returns: what to write; nil: nothing.
    func output(_ text: String, now: Instant) -> String? {
      guard text.isEmpty else { return text }
      return now.since(beganAt) >= Self.limit ? ":\n\n" : nil
    }
  }

  /// - Parameter data: without line ends.
  static func text(_ name: String, _ data: String) -> String { "event: \(name)\ndata: \(data)\n\n" }
}
