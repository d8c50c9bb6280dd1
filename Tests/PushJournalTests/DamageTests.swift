internal import PushJournal
internal import Support
internal import Testing

/// The files of a recorded journal, for damaging them.
private struct Recording {
  let files: [(name: String, bytes: [UInt8])]
  let records: [TestRecord]

  /// Makes several segments of several frames each.
  init(closed: Bool, recordCount: UInt64 = 60) throws {
    let disk = SimulatedDisk()
    let run = try HandRun(disk, .small(segment: 900, block: 400))
    var records: [TestRecord] = []
    for position in 1...recordCount {
      let record = TestRecord.numbered(position, byteCount: Int(position * 7 % 90))
      records.append(record)
      let at = try run.append(record)
      if position % 5 == 0 {
        run.journal.whenDurable(at) { _ in }
        run.run(now: .zero)
      }
    }
    run.flush()
    if closed { _ = run.close() }
    self.records = records
    files = try disk.fileNames.map { name in (name, try #require(disk.contents(name))) }
    #expect(files.count >= 4)
  }

  func disk() -> SimulatedDisk {
    let disk = SimulatedDisk()
    for file in files { disk.put(file.name, file.bytes) }
    return disk
  }
}

@Suite("Damaged segments")
struct DamageTests {
  /// Either all records are recovered, or the recovery reports that and where some are missing. The
  /// recovered ones were appended, and are in order.
  private func judge(
    _ disk: SimulatedDisk, _ recording: Recording, damagedSegment name: String, mayBeTorn: Bool, _ what: String
  ) throws {
    let (recovery, records) = try Journal.records(disk)
    let known = Dictionary(uniqueKeysWithValues: recording.records.map { ($0.position, $0) })
    for record in records where known[record.position] != record { Issue.record("\(what): invented \(record)") }
    for (left, right) in zip(records, records.dropFirst()) where left.position >= right.position {
      Issue.record("\(what): \(right) after \(left)")
    }
    if !recovery.damage.isEmpty {
      // The damaged segment, or the next one, before which records are missing.
      let first = try #require(recovery.damage.first)
      if first.segment < name {
        Issue.record("\(what): \(first) names a wrong segment")
      }
    } else if let tail = recovery.tornTail {
      if !mayBeTorn { Issue.record("\(what): reported as a torn tail: \(tail)") }
      if records != Array(recording.records.prefix(records.count)) {
        Issue.record("\(what): a gap before the torn tail")
      }
    } else if records != recording.records {
      Issue.record("\(what): \(recording.records.count - records.count) records are missing without a report")
    }
    // Opening reports the same.
    do {
      let run = try HandRun(disk, .small())
      #expect(recovery.damage.isEmpty, "\(what)")
      #expect(run.recovered == records, "\(what)")
    } catch JournalError.damaged(let damage) {
      #expect(recovery.damage.first == damage, "\(what)")
    }
  }

  @Test(
    "every damaged byte of every segment is found, unless all records are recovered anyway", arguments: [true, false])
  func singleBytes(closed: Bool) throws {
    let recording = try Recording(closed: closed)
    var generator = SeededGenerator(seed: 7)
    let last = try #require(recording.files.last)
    for file in recording.files {
      for offset in file.bytes.indices {
        let disk = recording.disk()
        var bytes = file.bytes
        bytes[offset] ^= UInt8.random(in: 1...255, using: &generator)
        disk.put(file.name, bytes)
        try judge(
          disk, recording, damagedSegment: file.name, mayBeTorn: file.name == last.name,
          "\(file.name) byte \(offset) changed to \(bytes[offset])")
      }
    }
  }

  @Test("in a closed journal, a damaged byte loses no record unless the damage is named")
  func closedJournal() throws {
    let recording = try Recording(closed: true)
    let last = try #require(recording.files.last)
    for offset in last.bytes.indices {
      let disk = recording.disk()
      var bytes = last.bytes
      bytes[offset] ^= 0x10
      disk.put(last.name, bytes)
      let (recovery, records) = try Journal.records(disk)
      // The closing frame may look torn, because it has no records.
      if recovery.damage.isEmpty { #expect(records == recording.records, "byte \(offset)") }
    }
  }

  @Test(
    "at every length, the last segment gives its whole frames, and an earlier one an error", arguments: [true, false])
  func prefixes(closed: Bool) throws {
    let recording = try Recording(closed: closed)
    let last = try #require(recording.files.last)
    for file in recording.files {
      var countBefore = -1
      for length in 0..<file.bytes.count {
        let disk = recording.disk()
        disk.put(file.name, Array(file.bytes.prefix(length)))
        let (recovery, records) = try Journal.records(disk)
        if file.name == last.name {
          #expect(recovery.damage.isEmpty, "\(length): \(recovery.damage)")
          #expect(records == Array(recording.records.prefix(records.count)), "\(length)")
          #expect(records.count >= countBefore, "\(length): fewer than of a shorter file")
          countBefore = records.count
          let cut = recovery.tornTail.map { $0.offset + $0.byteCount } ?? length
          #expect(cut == length, "\(length): \(String(describing: recovery.tornTail))")
        } else {
          #expect(!recovery.damage.isEmpty, "\(file.name) cut to \(length) bytes, and nobody says so")
        }
        do {
          let run = try HandRun(disk, .small())
          #expect(run.recovered == records, "\(length)")
          #expect(file.name == last.name, "\(length)")
        } catch JournalError.damaged(let damage) {
          #expect(file.name != last.name, "\(length): \(damage)")
          #expect(damage.segment >= file.name, "\(length): \(damage)")
        }
      }
    }
  }

  enum Disorder: CaseIterable {
    case firstMissing, secondMissing, allButLastMissing, exchangedNames
  }

  @Test(
    "a missing segment is named: the first, one in the middle, or all but the last",
    arguments: Disorder.allCases)
  func missingSegments(_ disorder: Disorder) throws {
    let recording = try Recording(closed: false)
    let disk = recording.disk()
    switch disorder {
    case .firstMissing: disk.remove(recording.files[0].name)
    case .secondMissing: disk.remove(recording.files[1].name)
    case .allButLastMissing: for file in recording.files.dropLast() { disk.remove(file.name) }
    case .exchangedNames:
      disk.put(recording.files[0].name, recording.files[1].bytes)
      disk.put(recording.files[1].name, recording.files[0].bytes)
    }
    #expect(throws: JournalError.self) { _ = try HandRun(disk, .small()) }
    let (recovery, _) = try Journal.records(disk)
    let damage = try #require(recovery.damage.first)
    switch damage.problem {
    case .missing:
      #expect(disorder != .exchangedNames)
      #expect(recovery.lostRecordCount > 0)
    case .wrongNumber(let number):
      #expect(disorder == .exchangedNames)
      #expect(number == 2)
    default: Issue.record("\(damage)")
    }
  }

  @Test("a segment of another journal is named")
  func otherJournal() throws {
    let recording = try Recording(closed: false)
    let other = try Recording(closed: false)
    let disk = recording.disk()
    disk.put(recording.files[2].name, other.files[2].bytes)
    let (recovery, _) = try Journal.records(disk)
    #expect(recovery.damage.first?.problem == .otherJournal)
    #expect(recovery.damage.first?.segment == recording.files[2].name)
  }

  @Test("skipping damage continues behind it, counts what was lost, and the journal can be used again")
  func skipping() throws {
    let recording = try Recording(closed: false)
    var generator = SeededGenerator(seed: 11)
    for round in 0..<300 {
      let disk = recording.disk()
      for file in recording.files.dropLast() where generator.chance(60) {
        var bytes = file.bytes
        for _ in 0..<Int.random(in: 1...3, using: &generator) {
          let start = bytes.indices.randomElement(using: &generator) ?? 0
          for offset in start..<min(bytes.count, start + Int.random(in: 1...40, using: &generator)) {
            bytes[offset] ^= UInt8.random(in: 1...255, using: &generator)
          }
        }
        disk.put(file.name, bytes)
      }
      var options = JournalOptions.small()
      options.skipsDamage = true
      let run = try HandRun(disk, options)
      let lost = recording.records.count - run.recovered.count
      #expect(run.recovery.lostRecordCount == UInt64(lost), "round \(round): \(run.recovery)")
      #expect((run.recovery.lostByteCount > 0) == !run.recovery.damage.isEmpty, "round \(round)")
      let known = Set(recording.records)
      #expect(run.recovered.allSatisfy(known.contains), "round \(round)")
      let position = try run.append(.numbered(UInt64(recording.records.count) + 1, byteCount: 10))
      #expect(position.rawValue == UInt64(recording.records.count) + 1, "round \(round)")
      run.flush()
      #expect(run.journal.durablePosition == position, "round \(round)")
    }
  }

  @Test("a frame inside a payload is never mistaken for a frame of the journal")
  func frameInPayload() throws {
    let forged = try Recording(closed: true)
    let disk = SimulatedDisk()
    let run = try HandRun(disk, .small(segment: 1 << 20, block: 1 << 16))
    // The payload cannot be compressed, so the file contains it unchanged.
    _ = try run.journal.append(kind: 1, bytes: forged.files[1].bytes)
    run.flush()
    let name = try #require(disk.fileNames.first)
    let whole = try #require(disk.contents(name))
    for length in 0..<whole.count {
      disk.put(name, Array(whole.prefix(length)))
      let (recovery, records) = try Journal.records(disk)
      #expect(recovery.damage.isEmpty, "\(length)")
      #expect(records.isEmpty, "\(length)")
      #expect(recovery.tornTail?.frameCount ?? 0 == 0, "\(length)")
    }
  }

  @Test("random bytes, and sound frames with changed bytes, never trap", arguments: 0..<4)
  func hostile(part: Int) throws {
    let recording = try Recording(closed: false)
    for seed in 0..<500 {
      var generator = SeededGenerator(seed: UInt64(part * 500 + seed))
      let disk = SimulatedDisk()
      for number in 0..<Int.random(in: 1...3, using: &generator) {
        var bytes: [UInt8] = generator.chance(40) ? generator.bytes(Int.random(in: 0...300, using: &generator)) : []
        for _ in 0..<Int.random(in: 0...3, using: &generator) {
          let file = recording.files[Int.random(in: 0..<recording.files.count, using: &generator)].bytes
          let start = Int.random(in: 0..<file.count, using: &generator)
          bytes += generator.chance(50) ? file[..<start] : file[start...]
          // Wrong sizes.
          if bytes.count > 20, generator.chance(50) {
            bytes.replaceSubrange(6..<14, with: (0..<8).map { _ in generator.chance(50) ? 0 : 0xFF })
          }
        }
        disk.put(recording.files[number].name, bytes)
      }
      do { _ = try HandRun(disk, .small()) } catch is JournalError {}
      disk.restart()
      var options = JournalOptions.small()
      options.skipsDamage = true
      do { _ = try HandRun(disk, options) } catch is JournalError {}
    }
  }
}
