internal import PushEngine

extension Workload {
  /// From a file to chunks of entries.
  static let audience = [tokenFile, csvFile, personalFile]

  private static let lineCount = 16_384

  private static let tokenFile = reading("Audience.tokens", lines: Samples.tokenTexts(lineCount))

  private static let csvFile = reading(
    "Audience.csv", lines: ["token,name,city"] + Samples.tokenTexts(lineCount).map { "\($0),Ada,London" })

  /// The same with a payload for each row.
  private static let personalFile = reading(
    "Audience.csvTemplate", lines: ["token,name,city"] + Samples.tokenTexts(lineCount).map { "\($0),Ada,London" },
    template: #"{"aps":{"alert":"Hello {{name}} in {{city}}, there is something new"}}"#)

  private static func reading(
    _ name: String, lines: @autoclosure @escaping @Sendable () -> [String], template: String? = nil
  ) -> Workload {
    Workload(name, lineCount, "lines") {
      let file = try UnnamedFile(lines().joined(separator: "\n") + "\n")
      let template = try template.map { try PayloadTemplate(parsing: Array($0.utf8)) }
      let chunk = AudienceChunk(payloadCapacity: template == nil ? 0 : AudienceChunk.defaultPayloadCapacity)
      var audience: AudienceFile?
      return Iteration(
        reset: { audience = try AudienceFile(path: file.path) { try template?.renderer(for: $0, byteLimit: 2048) } },
        run: {
          var count = 0
          while let supply = try audience?.fill(chunk), supply == .entries { count += chunk.readyCount }
          try WorkloadFailure.check(count == lineCount, "\(count) tokens were read, not \(lineCount)")
        })
    }
  }
}
