internal import Carillon
internal import PushWire

/// The notifications of one request: an array of objects, or an object on each line.
struct BatchRequest: Sendable {
  private(set) var notifications: [(PushNotification, Carillon.DeviceToken)] = []
  private(set) var rejectedCount = 0
  /// Of the first hundred that were rejected.
  private(set) var errors: [(line: Int, detail: String)] = []

  private static let errorLimit = 100

  /// - Parameter app: what it would refuse is rejected here.
  init(parsing body: [UInt8], app: PushApp) {
    let first = body.first { !$0.isJSONSpace }
    if first == UInt8(ascii: "[") { readArray(body, app) } else { readLines(body, app) }
  }

  private mutating func readArray(_ body: [UInt8], _ app: PushApp) {
    do {
      guard case .array(let elements) = try JSONBody.value(body[...]) else {
        return reject(1, "The body must be an array.")
      }
      for (index, element) in elements.enumerated() {
        guard case .object(let members) = element else {
          reject(index + 1, "It must be an object.")
          continue
        }
        add(index + 1, app) { try NotificationRequest(members) }
      }
    } catch let problem as Problem {
      reject(1, problem.detail)
    } catch {
      reject(1, "\(error)")
    }
  }

  private mutating func readLines(_ body: [UInt8], _ app: PushApp) {
    var line = 0
    for bytes in body.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
      line += 1
      guard bytes.contains(where: { !$0.isJSONSpace }) else { continue }
      add(line, app) { try NotificationRequest(parsing: bytes) }
    }
  }

  private mutating func add(_ line: Int, _ app: PushApp, _ read: () throws -> NotificationRequest) {
    do {
      let request = try read()
      if let finding = app.check(request.notification).first(where: \.isError) {
        return reject(line, finding.message)
      }
      notifications.append((request.notification, request.token))
    } catch let problem as Problem {
      reject(line, problem.errors.first?.pointer.map { "\($0): \(problem.detail)" } ?? problem.detail)
    } catch {
      reject(line, "\(error)")
    }
  }

  private mutating func reject(_ line: Int, _ detail: String) {
    rejectedCount += 1
    if errors.count < Self.errorLimit { errors.append((line, detail)) }
  }
}

extension UInt8 {
  fileprivate var isJSONSpace: Bool { self == 32 || (9...10).contains(self) || self == 13 }
}
