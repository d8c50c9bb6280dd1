enum BridgeSchema {
  static let sql = """
    CREATE TABLE bridgeFrames (
      client TEXT NOT NULL, position INTEGER NOT NULL, app TEXT NOT NULL, connection INTEGER NOT NULL,
      firstFrame INTEGER NOT NULL, runHigh INTEGER NOT NULL, runLow INTEGER NOT NULL, firstLine INTEGER NOT NULL,
      count INTEGER NOT NULL, at INTEGER NOT NULL, digests BLOB NOT NULL, PRIMARY KEY (app, client, position)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX bridgeFramesByTime ON bridgeFrames (at);

    CREATE TABLE bridgeEnds (
      connection INTEGER PRIMARY KEY, fromFrame INTEGER, at INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX bridgeEndsByTime ON bridgeEnds (at);

    CREATE TABLE bridgeApps (
      app TEXT PRIMARY KEY NOT NULL, alreadyDelivered INTEGER NOT NULL DEFAULT 0,
      feedbackCursor INTEGER NOT NULL DEFAULT 0
    ) STRICT, WITHOUT ROWID;
    """

  /// Frames that were recognised do not come again when their connection breaks; a frame that comes
  /// again because of an error response has an end of its own; and when something was not sent
  /// twice.
  static let resends = """
    ALTER TABLE bridgeFrames ADD COLUMN isRecognised INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE bridgeEnds ADD COLUMN recentFrom INTEGER;
    ALTER TABLE bridgeApps ADD COLUMN alreadyDeliveredAt INTEGER;
    CREATE TABLE bridgeLife (number INTEGER PRIMARY KEY CHECK (number = 1), at INTEGER NOT NULL) STRICT;
    """

  /// Until when the process of a killed connection lived. Later ones leave later signs of life.
  static let kills = "ALTER TABLE bridgeEnds ADD COLUMN lastSign INTEGER"

  /// In which nobody could send to the bridge again.
  static let pauses = "ALTER TABLE bridgeLife ADD COLUMN pause INTEGER NOT NULL DEFAULT 0"
}
