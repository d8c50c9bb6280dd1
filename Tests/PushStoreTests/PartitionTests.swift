internal import PushStore
internal import Support
internal import Testing

@testable internal import PushStorePostgreSQL

/// Outcomes by the day on which their run began.
@Suite("Partitions of outcomes")
struct PartitionTests {
  private static let day = StoreInstant.millisecondsPerDay

  private static func at(_ day: Int64, _ milliseconds: Int64 = 0) -> StoreInstant {
    StoreInstant(milliseconds: day * Self.day + milliseconds)
  }

  private static func run(_ day: Int64, _ low: UInt32) -> StoredRunID {
    StoredRunID(high: UInt64(day * Self.day) << 16, low: low)
  }

  /// A run with a row in each of the tables.
  private static func begin(_ run: StoredRunID, _ day: Int64, _ store: any Store) async throws {
    var changes = IntakeChanges()
    changes.began = [(run: run, app: "news", at: at(day, 5))]
    changes.accepted = [(run: run, lines: 1...20, confirmation: "confirmed")]
    changes.notAccepted = [
      (notification: StoredNotificationID(run: run, line: 21), state: "rejected", detail: "400 BadDeviceToken")
    ]
    changes.doubted = [StoredLines(run: run, lines: 3...4)]
    changes.references = [(StoredNotificationID(run: run, line: 1), "reference")]
    try store.write(changes)
  }

  private static func end(_ runs: [StoredRunID], at instant: StoreInstant, _ store: any Store) throws {
    var changes = IntakeChanges()
    changes.ended = runs.map { (run: $0, at: instant) }
    try store.write(changes)
  }

  /// 21 outcomes and a reference, or nothing.
  private static func isThere(_ run: StoredRunID, _ store: any Store) async throws -> Bool {
    let counts = try await store.outcomes(of: [StoredLines(run: run, lines: 1...30)])
    let reference = try await store.notification(StoredNotificationID(run: run, line: 1)).reference
    let isWhole = counts.total == 21 && counts.doubted == 2 && reference == "reference"
    #expect(isWhole || counts.total + counts.doubted == 0, "\(run) \(counts)")
    #expect(isWhole == (reference != nil), "\(run)")
    return isWhole
  }

  private static func partitions(_ store: PostgreSQLStore) async throws -> [String] {
    try await store.read(
      """
      SELECT inhrelid::regclass::text FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid AND relkind = 'r'
      WHERE inhparent = ANY ('{accepted,copies,not_accepted,notification_references}'::regclass[]) ORDER BY 1
      """
    ).map { $0.text($1, 0) }
  }

  private static func names(_ days: [Int64]) -> [String] {
    PostgreSQLDays.tables.flatMap { table in days.map { PostgreSQLDays.name(table, $0) } }.sorted()
  }

  /// Rows of a table, in the partition of a day.
  private static func count(_ table: String, _ day: Int64, _ store: PostgreSQLStore) async throws -> Int64 {
    try await store.read("SELECT count(*) FROM \(PostgreSQLDays.name(table, day))").int(0, 0)
  }

  @Test("retention drops the partitions of days whose runs have ended, and nothing else is lost")
  func dropped() async throws {
    let place = try StorePlace(.postgreSQL)
    let store = try #require(try place.open() as? PostgreSQLStore)
    #expect(try await Self.partitions(store) == Self.names([0]))
    for day in 20_000...20_002 as ClosedRange<Int64> {
      for low in 1...3 as ClosedRange<UInt32> { try await Self.begin(Self.run(day, low), day, store) }
    }
    try await Self.begin(Self.run(0, 1), 0, store)
    #expect(try await Self.partitions(store) == Self.names([0, 20_000, 20_001, 20_002, 20_003]))
    for table in PostgreSQLDays.tables {
      #expect(try await Self.count(table, 20_001, store) == 3, "\(table)")
      #expect(try await Self.count(table, 0, store) == 1, "\(table)")
    }
    // Of the second day one is open.
    let ended = (1...3).map { Self.run(20_000, $0) } + [Self.run(20_001, 1), Self.run(20_001, 3), Self.run(0, 1)]
    try Self.end(ended, at: Self.at(20_001, 50), store)
    try await store.forget(endedBefore: Self.at(20_001, 50))
    for run in ended { #expect(try await Self.isThere(run, store), "ended at the instant") }
    #expect(try await Self.partitions(store).count == 20)

    try await store.forget(endedBefore: Self.at(20_002, 60))
    #expect(try await Self.partitions(store) == Self.names([0, 20_001, 20_002, 20_003]))
    for run in ended { #expect(try await !Self.isThere(run, store)) }
    #expect(try await Self.isThere(Self.run(20_001, 2), store))
    for low in 1...3 as ClosedRange<UInt32> { #expect(try await Self.isThere(Self.run(20_002, low), store)) }
    for table in PostgreSQLDays.tables {
      #expect(try await Self.count(table, 20_001, store) == 1, "\(table)")
      #expect(try await Self.count(table, 0, store) == 0, "\(table)")
    }
    try Self.end([Self.run(20_001, 2)], at: Self.at(20_003), store)
    try await store.forget(endedBefore: Self.at(20_005))
    #expect(try await Self.partitions(store) == Self.names([0, 20_002]))
    for low in 1...3 as ClosedRange<UInt32> { #expect(try await Self.isThere(Self.run(20_002, low), store)) }
    try store.close()
  }

  @Test("a day whose partitions were dropped is written all the same")
  func later() async throws {
    let place = try StorePlace(.postgreSQL)
    let store = try #require(try place.open() as? PostgreSQLStore)
    try await Self.begin(Self.run(20_000, 1), 20_000, store)
    try Self.end([Self.run(20_000, 1)], at: Self.at(20_000, 9), store)
    try await store.forget(endedBefore: Self.at(20_009))
    #expect(try await Self.partitions(store) == Self.names([0]))
    // This process knows that there were some.
    try await Self.begin(Self.run(20_000, 2), 20_000, store)
    #expect(try await Self.isThere(Self.run(20_000, 2), store))
    #expect(try await Self.count("accepted", 0, store) == 1)
    let other = try place.open()
    try await Self.begin(Self.run(20_000, 3), 20_000, other)
    #expect(try await Self.isThere(Self.run(20_000, 3), store))
    #expect(try await Self.isThere(Self.run(20_000, 2), other))
    #expect(try await Self.count("accepted", 20_000, store) == 1)
    try other.close()
    try store.close()
  }

  @Test("several processes begin runs of new days while old ones are dropped: each has its outcomes")
  func together() async throws {
    let place = try StorePlace(.postgreSQL)
    let stores = try (0..<3).map { try place.open(node: "node-\($0)") }
    let days: [Int64] = [20_000, 20_001, 20_003]
    try await withThrowingTaskGroup { group in
      for (index, store) in stores.enumerated() {
        group.addTask {
          for low in 0..<8 as Range<UInt32> {
            for day in days {
              let run = Self.run(day, UInt32(index) * 100 + low)
              var changes = IntakeChanges()
              changes.began = [(run: run, app: "news", at: Self.at(day))]
              changes.accepted = [(run: run, lines: 1...5, confirmation: "confirmed")]
              if low % 2 == 0 { changes.ended = [(run: run, at: Self.at(day, 1))] }
              try store.write(changes)
            }
            try await store.forget(endedBefore: Self.at(20_002))
          }
        }
      }
      try await group.waitForAll()
    }
    for day in days {
      for index in stores.indices {
        for low in 0..<8 as Range<UInt32> {
          let run = Self.run(day, UInt32(index) * 100 + low)
          let counts = try await stores[0].outcomes(of: [StoredLines(run: run, lines: 1...5)])
          #expect(counts.total == (low % 2 == 0 && day < 20_002 ? 0 : 5), "\(day) \(index) \(low)")
        }
      }
    }
    for store in stores { try store.close() }
  }

  @Test("what an older version wrote stays, and can be forgotten")
  func migrated() async throws {
    let place = try StorePlace(.postgreSQL)
    let settings = try #require(place.database)
    let connection = try PostgreSQLConnection.open(PostgreSQLServers(settings), by: .after(.seconds(10)))
    try connection.script(
      PostgreSQLSchema.versions + PostgreSQLSchema.migrations.prefix(4).joined() + """
        UPDATE schema_version SET version = 4;
        INSERT INTO runs (high, low, app, node, began_at) SELECT n, 1, 'news', 'n1', 5 FROM generate_series(7, 8) AS n;
        INSERT INTO accepted SELECT number, 1, 20, 'confirmed' FROM runs;
        INSERT INTO not_accepted SELECT number, 21, 'rejected', '' FROM runs;
        INSERT INTO copies SELECT number, 3, 4, 1 FROM runs;
        INSERT INTO notification_references SELECT high, low, 1, 'reference' FROM runs;
        """, by: .after(.seconds(10)))
    let store = try place.open()
    let (first, second) = (StoredRunID(high: 7, low: 1), StoredRunID(high: 8, low: 1))
    for run in [first, second] { #expect(try await Self.isThere(run, store)) }
    try Self.end([first], at: Self.at(0, 50), store)
    try await store.forget(endedBefore: Self.at(0, 51))
    #expect(try await !Self.isThere(first, store))
    #expect(try await Self.isThere(second, store))
    try store.close()
  }

  @Test("a newer version's tables are used if that says so, and otherwise not opened")
  func newer() throws {
    let place = try StorePlace(.postgreSQL)
    let settings = try #require(place.database)
    try place.open().close()
    let connection = try PostgreSQLConnection.open(PostgreSQLServers(settings), by: .after(.seconds(10)))
    let known = PostgreSQLSchema.migrations.count
    func set(_ oldest: Int) throws {
      let statement =
        "ALTER TABLE nodes ADD COLUMN IF NOT EXISTS later text NOT NULL DEFAULT '';"
        + "UPDATE schema_version SET version = \(known + 1), oldest = \(oldest)"
      try connection.script(statement, by: .after(.seconds(10)))
    }
    try set(known)
    try place.open().close()
    try set(known + 1)
    let refusal = #expect(throws: StoreError.self) { try place.open() }
    #expect("\(refusal.map { "\($0)" } ?? "")".contains("cannot run beside"), "\(String(describing: refusal))")
  }

  @Test("a day has partitions of its own, unless rows are kept for months")
  func ranges() {
    #expect(PostgreSQLDays(ranges: []).partition(for: 20_000) == 20_000..<20_001)
    #expect(PostgreSQLDays(ranges: []).partition(for: 0) == nil)
    let days = PostgreSQLDays(ranges: [20_000..<20_001, 20_010..<20_015])
    #expect(days.partition(for: 20_000) == nil)
    #expect(days.partition(for: 20_014) == nil)
    #expect(days.partition(for: 20_001) == 20_001..<20_002)
    #expect(days.partition(for: 20_015) == 20_015..<20_016)
    #expect(days.partition(for: 19_999) == 19_999..<20_000)
    #expect(PostgreSQLDays(ranges: [19_800..<19_801, 20_001..<20_003]).partition(for: 20_000) == 20_000..<20_001)
    // A year, day by day.
    var (ranges, kept): ([Range<Int64>], Int64) = ([], 365)
    for day in 20_000..<22_000 as Range<Int64> {
      if let added = PostgreSQLDays(ranges: ranges).partition(for: day) { ranges.append(added) }
      ranges.removeAll { $0.upperBound <= day - kept }
      #expect(ranges.count < 46, "\(day)")
    }
  }
}
