internal import GRDB
internal import PushStore

/// The tables, and how older stores get them.
enum Schema {
  static var migrator: DatabaseMigrator {
    var migrator = DatabaseMigrator()
    migrator.registerMigration("1: keys, intake") { try $0.execute(sql: Schema.intake) }
    migrator.registerMigration("2: devices") { try $0.execute(sql: DeviceSchema.tables) }
    migrator.registerMigration("3: apps") { try $0.execute(sql: Schema.appStates) }
    migrator.registerMigration("4: idempotency") { try $0.execute(sql: IdempotencySchema.tables) }
    migrator.registerMigration("5: campaigns") { try $0.execute(sql: CampaignSchema.tables) }
    migrator.registerMigration("6: bridge") { try $0.execute(sql: BridgeSchema.sql) }
    migrator.registerMigration("7: feedback, references") {
      try $0.execute(sql: FeedbackSchema.tables)
      try $0.execute(sql: ReferenceSchema.tables)
    }
    migrator.registerMigration("8: doubt, headers of answers") {
      try $0.execute(sql: PossibleDuplicateSchema.tables)
      try $0.execute(sql: IdempotencySchema.headers)
    }
    migrator.registerMigration("9: campaigns that the journal knows") {
      try $0.execute(sql: CampaignSchema.beginnings)
    }
    migrator.registerMigration("10: possible copies") { try $0.execute(sql: PossibleDuplicateSchema.copies) }
    migrator.registerMigration("11: all apps is a word") { try $0.execute(sql: Schema.reachOfKeys) }
    migrator.registerMigration("12: plans of campaigns apart") { try $0.execute(sql: CampaignSchema.plansApart) }
    migrator.registerMigration("13: resends to the bridge") { try $0.execute(sql: BridgeSchema.resends) }
    migrator.registerMigration("14: merged devices") { try $0.execute(sql: DeviceSchema.merges) }
    migrator.registerMigration("15: killed connections of the bridge") { try $0.execute(sql: BridgeSchema.kills) }
    migrator.registerMigration("16: members of campaigns") { try $0.execute(sql: CampaignSchema.members) }
    migrator.registerMigration("17: count of writes") { try $0.execute(sql: Schema.writes) }
    migrator.registerMigration("18: sessions") { try $0.execute(sql: Schema.sessions) }
    migrator.registerMigration("19: outcomes in order") { try $0.execute(sql: OutcomeSchema.tables) }
    migrator.registerMigration("20: deliveries of outcomes") { try $0.execute(sql: OutcomeSchema.deliveries) }
    migrator.registerMigration("21: pauses of the bridge") { try $0.execute(sql: BridgeSchema.pauses) }
    migrator.registerMigration("22: events") { try $0.execute(sql: Schema.events) }
    migrator.registerMigration("23: Live Activities") { try $0.execute(sql: DeviceSchema.activities) }
    migrator.registerMigration("24: users") { try $0.execute(sql: DeviceSchema.users) }
    migrator.registerMigration("25: caps") { try $0.execute(sql: DeviceSchema.admissions) }
    return migrator
  }

  /// Before this migration, an empty list of apps meant all apps. The admin of some apps could also
  /// write one, once these apps had left the configuration. So a key with an empty list stays for
  /// all apps if it is older than the first such admin. Any other is for none from now on.
  private static let reachOfKeys = """
    UPDATE keys SET apps = '*' WHERE apps = '' AND createdAt < (
      SELECT coalesce(min(createdAt), 9223372036854775807) FROM keys
      WHERE apps <> '' AND ' ' || scopes || ' ' LIKE '% admin %')
    """

  /// How often outcomes were written: one row.
  private static let writes = """
    CREATE TABLE writes (number INTEGER PRIMARY KEY CHECK (number = 1), count INTEGER NOT NULL) STRICT;
    INSERT INTO writes VALUES (1, 0);
    """

  /// Who is logged in to the dashboard.
  private static let sessions = """
    CREATE TABLE sessions (
      digest BLOB PRIMARY KEY NOT NULL, key TEXT NOT NULL, expiresAt INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    """

  /// What was done with the service, and what it noticed. The app is empty if it concerns none.
  private static let events = """
    CREATE TABLE events (
      high INTEGER NOT NULL, low INTEGER NOT NULL, at INTEGER NOT NULL, kind TEXT NOT NULL, app TEXT NOT NULL,
      action TEXT NOT NULL, subject TEXT, key TEXT, address TEXT, node TEXT, reason TEXT, PRIMARY KEY (high, low)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX eventsByKind ON events (app, kind, high, low);
    """

  /// Keys of the API, runs with their outcomes, batches and gone devices.
  private static let intake = """
    CREATE TABLE keys (
      id TEXT PRIMARY KEY NOT NULL, name TEXT NOT NULL, digest BLOB NOT NULL, scopes TEXT NOT NULL,
      apps TEXT NOT NULL, createdAt INTEGER NOT NULL, lastUsedAt INTEGER, revokedAt INTEGER
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE runs (
      number INTEGER PRIMARY KEY, high INTEGER NOT NULL, low INTEGER NOT NULL, app TEXT NOT NULL,
      beganAt INTEGER NOT NULL, endedAt INTEGER, UNIQUE (high, low)
    ) STRICT;
    CREATE INDEX runsByEnd ON runs (endedAt) WHERE endedAt IS NOT NULL;

    CREATE TABLE accepted (
      run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE, first INTEGER NOT NULL,
      last INTEGER NOT NULL, confirmation TEXT NOT NULL, PRIMARY KEY (run, first)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE notAccepted (
      run INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE, line INTEGER NOT NULL,
      state TEXT NOT NULL, detail TEXT NOT NULL, PRIMARY KEY (run, line)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE batches (
      high INTEGER NOT NULL, low INTEGER NOT NULL, app TEXT NOT NULL, rejectedCount INTEGER NOT NULL,
      createdAt INTEGER NOT NULL, PRIMARY KEY (high, low)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX batchesByTime ON batches (createdAt);

    CREATE TABLE batchParts (
      high INTEGER NOT NULL, low INTEGER NOT NULL, part INTEGER NOT NULL, runHigh INTEGER NOT NULL,
      runLow INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
      PRIMARY KEY (high, low, part), FOREIGN KEY (high, low) REFERENCES batches ON DELETE CASCADE
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE gone (
      number INTEGER PRIMARY KEY AUTOINCREMENT, app TEXT NOT NULL, token BLOB NOT NULL, since INTEGER,
      foundAt INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX goneByApp ON gone (app, number);
    """
}
