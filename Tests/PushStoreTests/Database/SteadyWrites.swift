internal import Foundation
internal import PushStore
internal import Support
internal import Testing

@testable internal import PushStorePostgreSQL

/// Batches of outcomes from a thread, and registrations of devices from some tasks, each again
/// until it is acknowledged, as a service does it.
final class SteadyWrites: Sendable {
  private struct State {
    var batches: [ContinuousClock.Instant] = []
    var devices: [ContinuousClock.Instant] = []
    var slowest = Duration.zero
    var problems: [String] = []
    var isEnding = false
    var endedCount = 0
  }

  private static let writerCount = 4
  let store: PostgreSQLStore
  private let state = Watched(State())

  init(_ store: PostgreSQLStore) {
    self.store = store
    Thread.detachNewThread { [self] in
      var number: UInt32 = 0
      repeat {
        number += 1
        let began = ContinuousClock.now
        // What the store does not acknowledge is written again, as it was.
        while !attempt({ () throws(StoreError) in try store.write(Self.batch(number)) }) { usleep(10_000) }
        let now = ContinuousClock.now
        state.change { state in
          state.batches.append(now)
          state.slowest = max(state.slowest, now - began)
        }
      } while !state.read(\.isEnding)
      state.change { $0.endedCount += 1 }
    }
    for writer in 1..<Self.writerCount {
      Task {
        var number = 0
        repeat {
          number += 1
          var token = [UInt8(writer)]
          token.append(bigEndian: UInt32(number))
          let device = DeviceRegistration(
            token: token,
            newID: StoredUUID(high: UInt64(writer), low: UInt64(number)), registeredAt: StoreInstant(milliseconds: 5))
          while true {
            do throws(StoreError) {
              _ = try await store.register(device, app: "news")
              break
            } catch {
              note(error)
              try? await Task.sleep(for: .milliseconds(10))
            }
          }
          state.change { $0.devices.append(.now) }
        } while !state.read(\.isEnding)
        state.change { $0.endedCount += 1 }
      }
    }
  }

  private static let run = StoredRunID(high: 7, low: 8)

  /// Ten notifications, of which one may have arrived twice.
  private static func batch(_ number: UInt32) -> IntakeChanges {
    var changes = IntakeChanges()
    if number == 1 { changes.began = [(run: run, app: "news", at: StoreInstant(milliseconds: 1))] }
    changes.accepted = [(run: run, lines: number * 10 - 9...number * 10, confirmation: "confirmed")]
    changes.doubted = [StoredLines(run: run, lines: number * 10...number * 10)]
    return changes
  }

  private func attempt(_ body: () throws(StoreError) -> Void) -> Bool {
    do throws(StoreError) {
      try body()
      return true
    } catch {
      note(error)
      return false
    }
  }

  /// A store that is away is no problem.
  private func note(_ error: StoreError) {
    if error.kind != .away { state.change { $0.problems.append(error.description) } }
  }

  var slowest: Duration { state.read(\.slowest) }

  /// Returns when so many more batches and devices have been acknowledged.
  func proceed(by count: Int = 30, _ what: String) async throws {
    let (batches, devices) = state.read { ($0.batches.count, $0.devices.count) }
    try await waitUntil(what, limit: .seconds(60)) {
      state.read { $0.batches.count >= batches + count && $0.devices.count >= devices + count }
    }
  }

  /// The longest time without an acknowledgement that began after another time.
  func gaps(since begin: ContinuousClock.Instant) -> (batches: Duration, devices: Duration) {
    func gap(_ times: [ContinuousClock.Instant]) -> Duration {
      // The last one before that time began what was in the way.
      let first = max(0, (times.firstIndex { $0 > begin } ?? 0) - 1)
      return zip(times[first...], times[first...].dropFirst()).map { $1 - $0 }.max() ?? .zero
    }
    return state.read { (gap($0.batches), gap($0.devices)) }
  }

  /// Ends, and compares what was acknowledged with what a server has.
  func end(with settings: PostgreSQLSettings) async throws {
    state.change { $0.isEnding = true }
    try await waitUntil("the last ones are acknowledged", limit: .seconds(60)) {
      state.read { $0.endedCount == Self.writerCount }
    }
    try store.close()
    let (batches, devices, problems) = state.read { ($0.batches.count, $0.devices.count, $0.problems) }
    #expect(problems.isEmpty)
    let other = try PostgreSQLStore(settings)
    let counts = try await other.outcomes(of: [StoredLines(run: Self.run, lines: 1...UInt32(batches) * 10)])
    #expect(counts.accepted["confirmed"] == batches * 10)
    #expect(counts.copies == batches)
    #expect(try await other.audienceCount(app: "news", filter: AudienceFilter(), through: .max) == devices)
    try other.close()
  }
}
