internal import PushEngine

enum PayloadPlaceholders {
  /// Empty also for what is no payload.
  static func names(in payload: [UInt8]) -> [String] { (try? PayloadTemplate(parsing: payload))?.columns ?? [] }
}
