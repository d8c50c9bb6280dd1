/// Devices and their tags.
///
/// Names of apps, languages and time zones are numbers in the rows of devices, because millions
/// share a few of them. AUTOINCREMENT: a campaign's audience ends at a key, so no later device may
/// get a key that was used before. `devices.tags` has the same tags as `deviceTags`, which is the
/// index for filters.
enum DeviceSchema {
  static let users = """
    ALTER TABLE devices ADD COLUMN userID TEXT;
    CREATE INDEX devicesByUser ON devices (app, userID) WHERE userID IS NOT NULL;
    """

  /// Which campaigns those who are counted for caps were given last; see ``Admissions``.
  static let admissions = """
    CREATE TABLE admissions (
      app TEXT NOT NULL, member BLOB NOT NULL, campaigns BLOB NOT NULL, lastDay INTEGER NOT NULL,
      PRIMARY KEY (app, member)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX admissionsByAge ON admissions (lastDay);
    """

  /// Where devices are told about Live Activities.
  static let activities = """
    CREATE TABLE activityTokens (
      app TEXT NOT NULL, activity TEXT NOT NULL, isType INTEGER NOT NULL, device BLOB NOT NULL, token BLOB NOT NULL,
      registeredAt INTEGER NOT NULL, PRIMARY KEY (app, activity, isType, device)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX activityTokensByToken ON activityTokens (app, token);
    CREATE INDEX activityTokensByDevice ON activityTokens (app, device);
    CREATE INDEX activityTokensByAge ON activityTokens (registeredAt) WHERE NOT isType;
    """

  static let tables = """
    CREATE TABLE deviceNames (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;

    CREATE TABLE devices (
      number INTEGER PRIMARY KEY AUTOINCREMENT, app INTEGER NOT NULL REFERENCES deviceNames (number),
      high INTEGER NOT NULL, low INTEGER NOT NULL, token BLOB NOT NULL,
      language INTEGER REFERENCES deviceNames (number), timeZone INTEGER REFERENCES deviceNames (number),
      tags TEXT NOT NULL, createdAt INTEGER NOT NULL, registeredAt INTEGER NOT NULL, goneAt INTEGER
    ) STRICT;
    CREATE UNIQUE INDEX devicesByToken ON devices (app, token);
    CREATE UNIQUE INDEX devicesByID ON devices (high, low);
    CREATE INDEX devicesByApp ON devices (app, number);

    CREATE TABLE deviceTagNames (
      number INTEGER PRIMARY KEY AUTOINCREMENT, app INTEGER NOT NULL REFERENCES deviceNames (number),
      tag TEXT NOT NULL, deviceCount INTEGER NOT NULL DEFAULT 0, UNIQUE (app, tag)
    ) STRICT;

    CREATE TABLE deviceTags (
      tag INTEGER NOT NULL REFERENCES deviceTagNames (number), device INTEGER NOT NULL,
      PRIMARY KEY (tag, device)
    ) STRICT, WITHOUT ROWID;

    CREATE INDEX goneByToken ON gone (app, token);
    """

  /// Two devices that became one during a campaign: the key that is gone, and the one that stays.
  static let merges = """
    CREATE TABLE deviceMerges (
      app INTEGER NOT NULL REFERENCES deviceNames (number), formerKey INTEGER NOT NULL, keptKey INTEGER NOT NULL,
      PRIMARY KEY (app, formerKey)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX deviceMergesByKept ON deviceMerges (app, keptKey);
    """
}
