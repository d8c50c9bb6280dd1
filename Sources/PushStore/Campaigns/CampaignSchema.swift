/// The tables of campaigns.
enum CampaignSchema {
  static let tables = """
    CREATE TABLE campaigns (
      high INTEGER NOT NULL, low INTEGER NOT NULL, app TEXT NOT NULL, state TEXT NOT NULL, version INTEGER NOT NULL,
      content BLOB NOT NULL, reason TEXT NOT NULL, lineCount INTEGER NOT NULL, byteCount INTEGER NOT NULL,
      isComplete INTEGER NOT NULL, format TEXT NOT NULL, createdAt INTEGER NOT NULL, startedAt INTEGER,
      endedAt INTEGER, lastKey INTEGER, PRIMARY KEY (high, low)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX campaignsByApp ON campaigns (app, high, low);
    CREATE INDEX openCampaigns ON campaigns (high, low) WHERE endedAt IS NULL;
    CREATE INDEX campaignsByEnd ON campaigns (endedAt) WHERE endedAt IS NOT NULL;

    CREATE TABLE campaignParts (
      high INTEGER NOT NULL, low INTEGER NOT NULL, number INTEGER NOT NULL, dueAt INTEGER NOT NULL,
      content BLOB NOT NULL, account BLOB, endedAt INTEGER,
      PRIMARY KEY (high, low, number), FOREIGN KEY (high, low) REFERENCES campaigns ON DELETE CASCADE
    ) STRICT, WITHOUT ROWID;
    """

  /// Which parts the journal has had, and what no person has touched for long.
  static let beginnings = """
    ALTER TABLE campaignParts ADD COLUMN begunAt INTEGER;
    ALTER TABLE campaigns ADD COLUMN isDoubtful INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE campaigns ADD COLUMN changedAt INTEGER NOT NULL DEFAULT 0;
    UPDATE campaigns SET changedAt = CAST(strftime('%s', 'now') AS INTEGER) * 1000;
    """
}
