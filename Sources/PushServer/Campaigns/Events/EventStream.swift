internal import Hummingbird
internal import NIOCore

/// A stream of server-sent events (HTML, section 9.2).
struct EventStream: Sendable {
  /// How often it looks for something new.
  static let interval = Duration.milliseconds(500)
  /// After this long without an event, a comment shows both sides that the connection is alive.
  private static let quietLimit = Duration.seconds(15)
  /// How long a reader that no longer reads may take when the service ends.
  private static let endLimit = Duration.seconds(1)

  let isOpen: @Sendable () -> Bool
  /// The request's channel, to end a write that never returns.
  let channel: any Channel

  /// - Parameter next: the text of what is new, empty if nothing is; nil: the stream ends. The
  ///   argument is the time since the stream began.
  func response(_ next: @escaping @Sendable (_ elapsed: Duration) async throws -> String?) -> Response {
    Response(
      status: .ok, headers: [.contentType: "text/event-stream", .cacheControl: "no-cache"],
      body: ResponseBody { [isOpen, channel] writer in
        try await withThrowingTaskGroup(of: Void.self) { tasks in
          tasks.addTask {
            while isOpen() { try await Task.sleep(for: Self.interval) }
            try await Task.sleep(for: Self.endLimit)
            channel.close(promise: nil)
          }
          defer { tasks.cancelAll() }
          // Its client needs nothing but to stay.
          channel.triggerUserOutboundEvent(EndsWithInput(), promise: nil)
          let clock = ContinuousClock()
          let began = clock.now
          var wroteAt = began
          // The reader knows that it is connected, whatever comes when.
          try await writer.write(ByteBuffer(string: ": carillon\n\n"))
          while isOpen(), channel.isActive, let text = try await next(clock.now - began) {
            if !text.isEmpty {
              try await writer.write(ByteBuffer(string: text))
              wroteAt = clock.now
            } else if clock.now - wroteAt >= Self.quietLimit {
              try await writer.write(ByteBuffer(string: ":\n\n"))
              wroteAt = clock.now
            }
            try await Task.sleep(for: Self.interval)
          }
          try await writer.finish(nil)
        }
      })
  }

  /// - Parameter data: without line ends.
  static func text(_ name: String, _ data: String) -> String { "event: \(name)\ndata: \(data)\n\n" }
}
