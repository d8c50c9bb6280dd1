internal import Foundation
package import PushEngine
internal import PushStore

/// Changes that must be known before the journal's next record, while the store is away: on the
/// journal's disk, until a write of the store has them.
///
/// Each is kept with the number of the write that it will be part of. So a process that finds them
/// knows which of them are in the store.
package struct DeferredChanges: Sendable {
  private let log: DeferredList

  package init(_ log: DeferredList) { self.log = log }

  /// What is not in the store yet, by the number of its write.
  ///
  /// - Parameter count: how often the store was written.
  func changes(after count: Int64) throws(UnsyncedList) -> [(write: Int64, changes: IntakeChanges)] {
    var found: [Int64: IntakeChanges] = [:]
    for bytes in try log.entries() {
      // Its checksum is right, so it is from a newer version.
      guard let entry = try? JSONDecoder().decode(Entry.self, from: Data(bytes)) else { throw log.error(EBADMSG) }
      if entry.write > count { found[entry.write, default: IntakeChanges()].append(IntakeChanges(entry)) }
    }
    return found.sorted { $0.key < $1.key }.map { (write: $0.key, changes: $0.value) }
  }

  /// They are durable when this returns.
  func append(_ changes: [(write: Int64, changes: IntakeChanges)]) throws(UnsyncedList) {
    var entries: [[UInt8]] = []
    for (number, changes) in changes {
      guard let bytes = try? JSONEncoder().encode(Entry(number, changes)) else { throw log.error(EINVAL) }
      entries.append(Array(bytes))
    }
    try log.append(entries)
  }

  func clear() throws(UnsyncedList) { try log.clear() }
}

/// An entry of the file.
private struct Entry: Codable {
  struct Run: Codable {
    var high: UInt64
    var low: UInt32

    init(_ id: StoredRunID) { (high, low) = (id.high, id.low) }
    var id: StoredRunID { StoredRunID(high: high, low: low) }
  }

  struct Began: Codable {
    var run: Run
    var app: String
    var at: Int64
  }

  struct Doubted: Codable {
    var run: Run
    var first: UInt32
    var last: UInt32

    init(_ lines: StoredLines) { (run, first, last) = (Run(lines.run), lines.lines.lowerBound, lines.lines.upperBound) }
    var lines: StoredLines { StoredLines(run: run.id, lines: first...max(first, last)) }
  }

  struct Forwarded: Codable {
    var app: String
    var client: String
    var position: Int64
    var connection: UInt64
    var firstFrame: UInt64
    var run: Run
    var firstLine: UInt32
    var digests: Data
    var at: Int64
    var isRecognised: Bool
  }

  struct Ended: Codable {
    var connection: UInt64
    var from: UInt64?
    var recentFrom: UInt64?
    var at: Int64
    var lastSign: Int64?
  }

  /// Of a campaign.
  struct Passed: Codable {
    var app: String
    var campaignHigh: UInt64
    var campaignLow: UInt64
    var seedHigh: UInt64
    var seedLow: UInt64
    var state: String
    var detail: String
    var at: Int64
    var count: Int
    var entries: Data

    /// Nil: it is of no campaign.
    init?(_ group: OutcomeGroup) {
      guard case .campaign(let id, let seed) = group.origin else { return nil }
      (campaignHigh, campaignLow, seedHigh, seedLow) = (id.high, id.low, seed.high, seed.low)
      (app, state, detail) = (group.app, group.state, group.detail)
      (at, count, entries) = (group.at.milliseconds, group.count, Data(group.entries))
    }

    var group: OutcomeGroup {
      OutcomeGroup(
        app: app,
        origin: .campaign(
          StoredUUID(high: campaignHigh, low: campaignLow), seed: StoredUUID(high: seedHigh, low: seedLow)),
        state: state, detail: detail, at: StoreInstant(milliseconds: at), count: count, entries: Array(entries))
    }
  }

  struct Carriage: Codable {
    var block: Run
    var first: UInt32
    var lines: [UInt32]
    var run: Run
    var place: UInt32
  }

  struct Block: Codable {
    var run: Run
    var first: UInt32
    var app: String
    var count: Int
    var isBridge: Bool
    var common: Data
    var bytes: Data

    init(_ block: IntakeBlock) {
      (run, first, app, count) = (Run(block.id.run), block.id.first, block.app, block.count)
      isBridge = block.isBridge
      (common, bytes) = (Data(block.common), Data(block.bytes))
    }

    var block: IntakeBlock {
      IntakeBlock(
        IntakeBlock.ID(run: run.id, first: first), app: app, count: count, isBridge: isBridge,
        common: Array(common), bytes: Array(bytes))
    }
  }

  struct Delivered: Codable {
    var count: Int
    var last: Int64
  }

  var write: Int64
  var began: [Began]
  var doubted: [Doubted]
  var forwarded: [Forwarded]
  var ended: [Ended]
  var alreadyDelivered: [String: Delivered]
  var countLimit: Int
  /// Nil: of a version that did not have it.
  var passed: [Passed]?
  /// The same.
  var carriages: [Carriage]?
  /// The same.
  var copies: [Doubted]?
  /// The same.
  var blocks: [Block]?

  init(_ write: Int64, _ changes: IntakeChanges) {
    self.write = write
    began = changes.began.map { Began(run: Run($0.run), app: $0.app, at: $0.at.milliseconds) }
    doubted = changes.doubted.map(Doubted.init)
    forwarded = changes.bridge.forwarded.map {
      Forwarded(
        app: $0.app, client: $0.client, position: $0.position, connection: $0.connection, firstFrame: $0.firstFrame,
        run: Run($0.run), firstLine: $0.firstLine, digests: Data($0.digests), at: $0.at.milliseconds,
        isRecognised: $0.isRecognised)
    }
    ended = changes.bridge.ended.map {
      Ended(
        connection: $0.connection, from: $0.from, recentFrom: $0.recentFrom, at: $0.at.milliseconds,
        lastSign: $0.lastSign?.milliseconds)
    }
    alreadyDelivered = changes.bridge.alreadyDelivered.mapValues {
      Delivered(count: $0.count, last: $0.last.milliseconds)
    }
    countLimit = changes.bridge.countLimit
    passed = changes.passed.groups.compactMap(Passed.init)
    carriages = changes.shared.carriages.map {
      Carriage(block: Run($0.block.run), first: $0.block.first, lines: $0.lines, run: Run($0.run), place: $0.first)
    }
    copies = changes.shared.copies.map(Doubted.init)
    blocks = changes.shared.blocks.map(Block.init)
  }
}

extension IntakeChanges {
  fileprivate init(_ entry: Entry) {
    self.init()
    began = entry.began.map { (run: $0.run.id, app: $0.app, at: StoreInstant(milliseconds: $0.at)) }
    doubted = entry.doubted.map(\.lines)
    shared.copies = (entry.copies ?? []).map(\.lines)
    shared.blocks = (entry.blocks ?? []).map(\.block)
    bridge.forwarded = entry.forwarded.map {
      ForwardedFrames(
        app: $0.app, client: $0.client, position: $0.position, connection: $0.connection, firstFrame: $0.firstFrame,
        run: $0.run.id, firstLine: $0.firstLine, digests: Array($0.digests), at: StoreInstant(milliseconds: $0.at),
        isRecognised: $0.isRecognised)
    }
    bridge.ended = entry.ended.map {
      EndedConnection(
        connection: $0.connection, from: $0.from, recentFrom: $0.recentFrom, at: StoreInstant(milliseconds: $0.at),
        lastSign: $0.lastSign.map { StoreInstant(milliseconds: $0) })
    }
    for (app, delivered) in entry.alreadyDelivered {
      bridge.addAlreadyDelivered(delivered.count, app: app, at: StoreInstant(milliseconds: delivered.last))
    }
    bridge.countLimit = entry.countLimit
    passed = OutcomeList((entry.passed ?? []).map(\.group))
    shared.carriages = (entry.carriages ?? []).map {
      IntakeCarriage(
        block: IntakeBlock.ID(run: $0.block.id, first: $0.first), lines: $0.lines, run: $0.run.id, first: $0.place)
    }
  }
}
