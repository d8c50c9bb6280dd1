/// A table as one store hands it to another when a deployment moves: what its rows have, not how
/// either keeps them.
package struct StoreTable: Hashable, Sendable {
  package enum Form: String, Hashable, Sendable {
    case integer, text, bytes, uuid
    /// 0 or 1.
    case flag
    case texts
    /// A name that many rows share, such as that of an app or a language.
    case name
    /// Tags of the app that the row's first column names.
    case tags
  }

  package struct Column: Hashable, Sendable {
    package let name: String
    package let form: Form
  }

  /// Words with `_` between them, here and of columns.
  package let name: String
  package let columns: [Column]

  /// - Parameter columns: such as `number token:bytes`; integers unless a form is named.
  init(_ name: String, _ columns: String) {
    self.name = name
    self.columns = columns.split(separator: " ").map { text in
      let parts = text.split(separator: ":")
      return Column(
        name: String(parts[0]), form: parts.count > 1 ? Form(rawValue: String(parts[1])) ?? .text : .integer)
    }
  }

  /// All that a deployment remembers. What others name comes first.
  package static let all = [
    StoreTable(
      "keys", "id:text name:text digest:bytes scopes:texts apps:texts created_at last_used_at revoked_at"),
    StoreTable(
      "events",
      "id:uuid at kind:text app:text action:text subject:text key:text address:text node:text reason:text"),
    StoreTable("runs", "number high low app:text began_at ended_at"),
    StoreTable("accepted", "run first last confirmation:text"),
    StoreTable("not_accepted", "run line state:text detail:text"),
    StoreTable("copies", "run first last count"),
    StoreTable(
      "outcomes",
      """
      app:text last count at is_bridge:flag high low campaign_high campaign_low state:text detail:text entries:bytes
      """),
    StoreTable("outcome_counts", "app:text last"),
    StoreTable("deliveries", "app:text delivered"),
    StoreTable("notification_references", "high low line reference:text"),
    StoreTable("batches", "id:uuid app:text rejected_count created_at"),
    StoreTable("batch_parts", "batch:uuid part high low first last"),
    StoreTable("gone", "number app:text token:bytes since found_at"),
    StoreTable("app_states", "app:text paused_at"),
    StoreTable("feedback_polls", "app:text polled_at"),
    StoreTable(
      "requests",
      """
      caller:text key:text digest:bytes begun_at status header_names:texts header_values:texts body:bytes
      """),
    StoreTable(
      "devices",
      """
      app:name number id:uuid token:bytes language:name time_zone:name tags:tags created_at registered_at gone_at \
      user_id:text
      """),
    StoreTable("activity_tokens", "app:text activity:text is_type:flag device:bytes token:bytes registered_at"),
    StoreTable("admissions", "app:text member:bytes campaigns:bytes last_day"),
    StoreTable("device_merges", "app:name former_key kept_key"),
    StoreTable(
      "campaigns",
      """
      id:uuid app:text state:text version reason:text is_doubtful:flag line_count byte_count is_complete:flag \
      format:text created_at changed_at started_at ended_at last_key audience_count name:text is_for_devices:flag \
      is_dry_run:flag begins_at last_begins_at plan_byte_count cut_key
      """),
    StoreTable("campaign_plans", "campaign:uuid content:bytes"),
    StoreTable("campaign_parts", "campaign:uuid number due_at content:bytes begun_at account:bytes ended_at"),
    StoreTable("campaign_members", "campaign:uuid part first_key last_key count keys:bytes"),
    StoreTable(
      "bridge_frames",
      """
      app:text client:text position connection first_frame high low first_line count at digests:bytes \
      is_recognised:flag
      """),
    StoreTable("bridge_ends", "connection from_frame recent_from at last_sign"),
    StoreTable("bridge_apps", "app:text already_delivered already_delivered_at feedback_cursor"),
    StoreTable("bridge_life", "number at pause"),
  ]
}

/// What a row has in a column.
package enum StoredCell: Hashable, Sendable {
  case null
  case integer(Int64)
  case text(String)
  case texts([String])
  case bytes([UInt8])
  case uuid(StoredUUID)
}

/// What a moved deployment must not give out again.
package struct StoreNumbers: Hashable, Sendable {
  /// Of the devices that ever were.
  package var lastDevice: Int64
  /// Of the devices that were ever found gone.
  package var lastGone: Int64

  package init(lastDevice: Int64, lastGone: Int64) { (self.lastDevice, self.lastGone) = (lastDevice, lastGone) }
}
