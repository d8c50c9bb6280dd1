internal import PushTransport
internal import PushWire
internal import Testing

@testable internal import Carillon

/// Numbers, sizes and durations with bounds, and endpoints that follow from settings.
struct ValueTests {
  @Test("a value inside its bounds is read; a plain duration counts seconds where that is allowed")
  func good() throws {
    #expect(try Quantity.integer("5", in: 1...5) == 5)
    #expect(try Quantity.byteCount("4KiB", in: 1...8192) == 4096)
    #expect(try Quantity.duration("5ms", in: .zero ... .seconds(1)) == .milliseconds(5))
    #expect(try Quantity.duration("7d", in: .zero ... .seconds(604_800)) == .seconds(604_800))
    for (text, advice) in [("16MB", "; write 16MiB"), ("16mb", "; write 16MiB"), ("1G", "; write 1GiB"), ("x", "")] {
      let error = #expect(throws: ValueError.self) { try Quantity.byteCount(text, in: 1...100) }
      #expect(error?.problem == "must be a size from 1 to 100, not \"\(text)\"\(advice)")
    }
    #expect(try Quantity.duration("5", in: .zero ... .seconds(9), plainIsSeconds: true) == .seconds(5))
  }

  @Test("any other value is an error that says which values are allowed")
  func wrong() {
    #expect(throws: ValueError("must be a whole number from 1 to 5, not \"6\"")) {
      try Quantity.integer("6", in: 1...5)
    }
    #expect(throws: ValueError("must be a size from 1 to 8KiB, not \"9KiB\"")) {
      try Quantity.byteCount("9KiB", in: 1...8192)
    }
    #expect(throws: ValueError("must be a duration from 0ms to 10s, not \"5\"; its units are us, ms, s, m, h and d")) {
      try Quantity.duration("5", in: .zero ... .seconds(10))
    }
    #expect(
      throws: ValueError("must be a duration from 10ms to 1h, not \"x\\u{1b}\"; its units are us, ms, s, m, h and d")
    ) {
      try Quantity.duration("x\u{1B}", in: AppSetting.Bounds.quiet, plainIsSeconds: true)
    }
  }

  @Test("the feedback service is Apple's beside Apple's gateway, and the same host beside any other")
  func feedbackService() {
    var app = AppConfiguration(
      id: "news", topic: "com.example.news", transport: .binary(), credential: .certificate(file: "c.pem"))
    #expect(app.feedbackOrDefault == Endpoint(host: "feedback.push.apple.com", port: 2196))
    app.environment = .sandbox
    #expect(app.feedbackOrDefault == Endpoint(host: "feedback.sandbox.push.apple.com", port: 2196))
    app.gateway = AppConfiguration.Gateway(host: "gateway.example.com", port: 2195)
    #expect(app.feedbackOrDefault == Endpoint(host: "gateway.example.com", port: 2196))
    app.feedbackService = AppConfiguration.Gateway(host: "feedback.example.com", port: 1)
    #expect(app.feedbackOrDefault == Endpoint(host: "feedback.example.com", port: 1))
  }
}
