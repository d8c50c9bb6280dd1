internal import Carillon
internal import HTTPTypes
internal import PushService
internal import PushStore
internal import PushWire

/// The notifications of one request: an array of objects, or an object on each line.
///
/// A line that differs from an earlier one in its device and its reference alone is recognised by
/// its bytes. It shares the earlier one's notification, which was parsed and checked once.
struct BatchRequest: Sendable {
  private(set) var notifications: [(PreparedNotification, DeviceToken)] = []
  /// Entries for devices whose tokens are not known yet.
  private(set) var devices: [(line: Int, id: StoredUUID, notification: PreparedNotification, reference: String?)] = []
  /// Entries for users.
  private(set) var users: [UserEntry] = []
  /// What callers wrote beside notifications, with their place in ``notifications``, in its order.
  private(set) var references: [(index: Int, text: String)] = []
  /// Entries for devices to which nothing is sent.
  private(set) var suppressed: [(token: [UInt8], reference: String?)] = []
  private(set) var rejectedCount = 0
  /// The first hundred lines that were rejected.
  private(set) var errors: [(line: Int, detail: String)] = []
  /// What may not be meant: the first line of each notification that was parsed, at most a hundred.
  private(set) var warnings: [(line: Int, detail: String)] = []
  /// Lines that others may repeat. The one that was met last comes first.
  private var shapes: [Shape] = []
  private let app: PushApp
  private var hasBegun = false
  /// Of an array; nil: lines.
  private var elements: [Range<Int>]?
  /// Lines that were read, and where the next one begins.
  private var line = 0
  private var start = 0

  /// A batch with so many rejected lines is not read further, and nothing of it is taken in.
  static let rejectedLimit = 5_000
  /// Lines that are read in one turn: some milliseconds.
  private static let sliceLineCount = 200

  private struct Shape {
    let shape: JSONLineShape
    let notification: PreparedNotification
  }

  struct UserEntry: Sendable {
    let line: Int
    let user: String
    let isOncePerUser: Bool
    let notification: PreparedNotification
    let reference: String?
  }

  /// Notifications that entries for users become, at most: a short line is for many devices.
  static let userDeviceLimit = 20_000

  /// What is to be known of a user's device.
  struct UserDevice: Sendable {
    let token: [UInt8]
    let isSuppressed: Bool
  }

  private static let errorLimit = 100
  /// As many as an app has languages. Comparing a line with all of them costs less than parsing it.
  private static let shapeLimit = 64

  /// - Parameter app: what it would refuse is rejected here.
  init(parsing body: [UInt8], app: PushApp) {
    self.init(app)
    while readSlice(body) {}
  }

  private init(_ app: PushApp) { self.app = app }

  /// Reads a body in turns with those of other keys.
  ///
  /// - Throws: ``Problem`` with 422 for a body with too many lines that are rejected.
  static func read(_ body: [UInt8], app: PushApp, key: String) async throws -> BatchRequest {
    var request = BatchRequest(app)
    while await ParsingPool.shared.turn(of: key, { request.readSlice(body) }) {}
    guard request.hasTooManyRejected else { return request }
    throw Problem(
      .unprocessableContent, "Too many rejected lines",
      "\(rejectedLimit) lines up to line \(request.line) are rejected, and nothing was taken in.",
      action: "Correct the lines, of which the first are listed, and send the batch again.",
      errors: request.errors.map { Problem.Detail(line: $0.line, detail: $0.detail) })
  }

  private var hasTooManyRejected: Bool { rejectedCount >= Self.rejectedLimit }

  /// - Returns: whether there is more to read.
  private mutating func readSlice(_ body: [UInt8]) -> Bool {
    if !hasBegun { begin(body) }
    for _ in 0..<Self.sliceLineCount {
      guard !hasTooManyRejected, let range = nextRange(body) else {
        shapes = []
        return false
      }
      line += 1
      add(line, body, range)
    }
    return true
  }

  private mutating func begin(_ body: [UInt8]) {
    hasBegun = true
    guard body.first(where: { !$0.isJSONSpace }) == UInt8(ascii: "[") else { return }
    do throws(JSONError) { elements = try JSONScanner.elements(body) ?? [] } catch {
      elements = []
      reject(1, "The body is not JSON: \(error.description(in: body)).")
    }
  }

  private mutating func nextRange(_ body: [UInt8]) -> Range<Int>? {
    if let elements { return line < elements.count ? elements[line] : nil }
    guard start < body.count else { return nil }
    let end = JSONScanner.lineEnd(body, from: start)
    defer { start = end + 1 }
    return start..<end
  }

  private mutating func add(_ line: Int, _ body: [UInt8], _ range: Range<Int>) {
    for index in shapes.indices {
      guard let found = shapes[index].shape.line(body, range), add(line, body, found, shapes[index].notification)
      else { continue }
      if index > 0 { shapes.swapAt(0, index) }
      return
    }
    let text = body[range]
    guard text.contains(where: { !$0.isJSONSpace }) else { return }
    do {
      let request = try NotificationRequest(parsing: text, isLine: true)
      let notification = try app.prepare(request.notification)
      if warnings.count < Self.errorLimit {
        warnings += notification.requestWarnings.prefix(Self.errorLimit - warnings.count).map { (line, $0) }
      }
      if let user = request.user {
        users.append(
          UserEntry(
            line: line, user: user, isOncePerUser: request.isOncePerUser, notification: notification,
            reference: request.reference))
        return
      }
      add(line, notification, token: request.token, device: request.device, reference: request.reference)
      if let shape = JSONLineShape(body, range) { remember(Shape(shape: shape, notification: notification)) }
    } catch let problem as Problem {
      reject(line, problem.errors.first?.pointer.map { "\($0): \(problem.detail)" } ?? problem.detail)
    } catch let error as CarillonError {
      reject(line, error.message)
    } catch {
      reject(line, "\(error)")
    }
  }

  /// - Returns: false if what it says of its device cannot be.
  private mutating func add(
    _ line: Int, _ body: [UInt8], _ found: JSONLineShape.Line, _ notification: PreparedNotification
  ) -> Bool {
    let device = found.deviceID.flatMap { StoredUUID(String(decoding: body[$0], as: UTF8.self)) }
    guard (device == nil) == (found.deviceID == nil),
      found.token.map({ $0.byteCount >= DeviceToken.leastByteCount }) ?? true,
      (found.reference?.count ?? 0) <= NotificationRequest.referenceLimit
    else { return false }
    add(
      line, notification, token: found.token.map(DeviceToken.init), device: device,
      reference: found.reference.map { String(decoding: body[$0], as: UTF8.self) })
    return true
  }

  private mutating func add(
    _ line: Int, _ notification: PreparedNotification, token: DeviceToken?, device: StoredUUID?, reference: String?
  ) {
    if let device { devices.append((line, device, notification, reference)) }
    guard let token else { return }
    if let reference { references.append((notifications.count, reference)) }
    notifications.append((notification, token))
  }

  private mutating func remember(_ shape: Shape) {
    if shapes.count < Self.shapeLimit { shapes.append(shape) } else { shapes[Self.shapeLimit - 1] = shape }
    shapes.swapAt(0, shapes.count - 1)
  }

  /// Entries for devices get their tokens. To be called once, with every device that was found.
  mutating func resolve(_ found: [StoredUUID: StoredDevice]) {
    for entry in exchange(&devices, with: []) {
      guard let device = found[entry.id], let token = try? DeviceToken(bytes: device.token) else {
        reject(entry.line, "/deviceId: There is no device \(entry.id.text).")
        continue
      }
      guard !device.isSuppressed else {
        suppressed.append((token: device.token, reference: entry.reference))
        continue
      }
      add(entry.line, entry.notification, token: token, device: nil, reference: entry.reference)
    }
    errors.sort { $0.line < $1.line }
  }

  /// Entries for users become one for each of their devices. To be called once.
  ///
  /// - Parameter found: the newest first. Those of the users that are missing were too many.
  mutating func resolve(users found: [String: [UserDevice]]) {
    var count = 0
    for entry in exchange(&users, with: []) {
      var devices = found[entry.user]
      if entry.isOncePerUser, let one = devices?.first(where: { !$0.isSuppressed }) ?? devices?.first {
        devices = [one]
      }
      guard devices?.isEmpty != true else {
        reject(entry.line, "/userId: The user \(entry.user.cited) has no device.")
        continue
      }
      count += devices?.count ?? 0
      guard let devices, count <= Self.userDeviceLimit else {
        reject(entry.line, "/userId: The users of a batch have at most \(Self.userDeviceLimit) devices: send another.")
        continue
      }
      for device in devices {
        guard !device.isSuppressed, let token = try? DeviceToken(bytes: device.token) else {
          suppressed.append((token: device.token, reference: entry.reference))
          continue
        }
        add(entry.line, entry.notification, token: token, device: nil, reference: entry.reference)
      }
    }
    errors.sort { $0.line < $1.line }
  }

  private mutating func reject(_ line: Int, _ detail: String) {
    rejectedCount += 1
    if errors.count < Self.errorLimit { errors.append((line, detail)) }
  }
}

extension UInt8 {
  fileprivate var isJSONSpace: Bool { self == 32 || (9...10).contains(self) || self == 13 }
}
