internal import Foundation
internal import Logging
internal import Testing

@testable internal import PushServer
@testable internal import PushTransport

@Suite("The listener for health", .timeLimit(.minutes(5)))
struct HealthListenerTests {
  @Test("it accepts and answers while other work takes every thread of the common pool")
  func saturated() async {
    await #expect(processExitsWith: .success) {
      let admin = AdminRoutes(
        isReady: { true }, metrics: { [] }, requests: RequestMetrics(Histograms()), access: nil)
      let listener = ControlListener(
        admin.responder, Listen(host: "127.0.0.1", port: 0), ServerConfiguration.API(), certificate: nil, .health,
        channels: OpenChannels(), reserve: DescriptorReserve { _ in }, drain: .zero, logger: Logger(label: "test"),
        prepare: {}
      ) { port in
        // More than there are threads: none of them is free, and none ever will be.
        for _ in 0..<4 * ProcessInfo.processInfo.activeProcessorCount {
          Task.detached { HealthListenerTests.takeThread() }
        }
        Thread.detachNewThread {
          for path in ["healthz", "readyz"] where !HealthListenerTests.answers(port, path) { exit(1) }
          exit(0)
        }
      }
      try await listener.run()
    }
  }

  private static func takeThread() { while true { pause() } }

  /// Asks over a plain socket, without a thread of the common pool.
  private static func answers(_ port: Int, _ path: String) -> Bool {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = in_port_t(port).bigEndian
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var limit = timeval(tv_sec: 60, tv_usec: 0)
    _ = unsafe setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    let result = unsafe withUnsafePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    guard result == 0 else { return false }
    let request = "GET /\(path) HTTP/1.1\r\nhost: localhost\r\n\r\n"
    _ = unsafe Foundation.send(descriptor, request, request.utf8.count, 0)
    var block = [UInt8](repeating: 0, count: 4096)
    let count = unsafe recv(descriptor, &block, block.count, 0)
    return String(decoding: block.prefix(max(0, count)), as: UTF8.self).hasPrefix("HTTP/1.1 200")
  }
}
