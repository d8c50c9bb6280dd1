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

  /// Plans have a table of their own: a row beside a plan of a megabyte is read through it. What
  /// lists show of a plan stands beside the state.
  static let plansApart = """
    CREATE TABLE campaignPlans (
      high INTEGER NOT NULL, low INTEGER NOT NULL, content BLOB NOT NULL,
      PRIMARY KEY (high, low), FOREIGN KEY (high, low) REFERENCES campaigns ON DELETE CASCADE
    ) STRICT, WITHOUT ROWID;
    INSERT INTO campaignPlans SELECT high, low, content FROM campaigns;

    ALTER TABLE campaigns ADD COLUMN name TEXT NOT NULL DEFAULT '';
    ALTER TABLE campaigns ADD COLUMN isForDevices INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE campaigns ADD COLUMN isDryRun INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE campaigns ADD COLUMN beginsAt INTEGER;
    ALTER TABLE campaigns ADD COLUMN lastBeginsAt INTEGER;
    ALTER TABLE campaigns ADD COLUMN audienceCount INTEGER;
    ALTER TABLE campaigns ADD COLUMN planByteCount INTEGER NOT NULL DEFAULT 0;
    UPDATE campaigns SET planByteCount = length(content);
    UPDATE campaigns SET
      name = coalesce(CAST(CAST(content AS TEXT) ->> '$.name' AS TEXT), ''),
      isForDevices = coalesce(CAST(content AS TEXT) ->> '$.audience.source' = 'devices', 0),
      isDryRun = coalesce(CAST(content AS TEXT) ->> '$.dryRun' = 1, 0),
      beginsAt = 1000 * coalesce(
        CAST(strftime('%s', upper(CAST(content AS TEXT) ->> '$.sendAt')) AS INTEGER),
        CAST(strftime('%s', CAST(content AS TEXT) ->> '$.localSend.time') AS INTEGER) - 14 * 3600),
      lastBeginsAt = 1000 * (
        CAST(strftime('%s', CAST(content AS TEXT) ->> '$.localSend.time') AS INTEGER) + 12 * 3600)
    WHERE json_valid(CAST(content AS TEXT));
    ALTER TABLE campaigns DROP COLUMN content;

    DROP INDEX openCampaigns;
    CREATE INDEX openCampaigns ON campaigns (app, high, low) WHERE endedAt IS NULL;
    """

  /// Which devices a campaign is for, as ``MemberPiece`` has them.
  static let members = """
    ALTER TABLE campaigns ADD COLUMN cutKey INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE campaignMembers (
      high INTEGER NOT NULL, low INTEGER NOT NULL, part INTEGER NOT NULL, firstKey INTEGER NOT NULL,
      lastKey INTEGER NOT NULL, count INTEGER NOT NULL, keys BLOB NOT NULL,
      PRIMARY KEY (high, low, part, lastKey), FOREIGN KEY (high, low) REFERENCES campaigns ON DELETE CASCADE
    ) STRICT;
    """
}
