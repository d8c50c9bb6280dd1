internal import PushWire

extension Workload {
  /// Reading what clients send: payloads, and the lines of a batch.
  static let json = [validation, tree, line, sameShape]

  private static let textCount = 1000
  private static let payload =
    #"{"aps":{"alert":{"title":"Score","body":"Two – one, 83’"},"badge":3,"sound":"default"},"#
    + #""match":{"id":48211,"home":2,"away":1,"minutes":[12.5,40,83],"live":true}}"#
  private static func line(_ token: String, _ number: Int) -> String {
    #"{"token":"\#(token)","reference":"fan-\#(number)","payload":\#(payload)}"#
  }

  private static let validation = Workload("JSON.validate", textCount, "payloads") {
    let text = Array(payload.utf8)
    return Iteration {
      for _ in 0..<textCount { _ = try unsafe text.withUnsafeBytes { try unsafe JSONScanner.validate($0) } }
    }
  }

  private static let tree = Workload("JSON.tree", textCount, "payloads", mayAllocate: true) {
    let text = Array(payload.utf8)
    return Iteration {
      for _ in 0..<textCount { _ = try unsafe text.withUnsafeBytes { try unsafe JSONValue(parsing: $0) } }
    }
  }

  /// A line of a batch that is like no other.
  private static let line = Workload("JSON.line", textCount, "lines", mayAllocate: true) {
    let lines = Samples.tokenTexts(textCount).enumerated().map { Array(line($1, $0).utf8) }
    return Iteration {
      for line in lines { _ = try unsafe line.withUnsafeBytes { try unsafe JSONValue(parsing: $0) } }
    }
  }

  /// A line that differs from an earlier one only in its device and its reference.
  private static let sameShape = Workload("JSON.sameShape", textCount, "lines", mayAllocate: true) {
    let lines = Samples.tokenTexts(textCount).enumerated().map { Array(line($1, $0).utf8) }
    let shape = JSONLineShape(lines[0], lines[0].indices)
    return Iteration {
      for line in lines {
        try WorkloadFailure.check(shape?.line(line, line.indices)?.token != nil, "the line has another shape")
      }
    }
  }
}
