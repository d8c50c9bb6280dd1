/// The static table of HPACK (RFC 7541, appendix A), whose indices begin at 1.
enum HPACKStaticTable {
  static let count = 61

  struct Entry {
    private let nameText: StaticString
    private let valueText: StaticString

    init(_ name: StaticString, _ value: StaticString) { (nameText, valueText) = (name, value) }

    var name: UnsafeRawBufferPointer {
      unsafe UnsafeRawBufferPointer(start: nameText.utf8Start, count: nameText.utf8CodeUnitCount)
    }
    var value: UnsafeRawBufferPointer {
      unsafe UnsafeRawBufferPointer(start: valueText.utf8Start, count: valueText.utf8CodeUnitCount)
    }
  }

  /// Entry 1 is at place 0. Constants of the program, so their bytes never move.
  static let entries: [Entry] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
    ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""),
    ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""),
    ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""),
    ("last-modified", ""), ("link", ""), ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""),
    ("proxy-authorization", ""), ("range", ""), ("referer", ""), ("refresh", ""), ("retry-after", ""),
    ("server", ""), ("set-cookie", ""), ("strict-transport-security", ""), ("transfer-encoding", ""),
    ("user-agent", ""), ("vary", ""), ("via", ""), ("www-authenticate", ""),
  ].map { (entry: (StaticString, StaticString)) in Entry(entry.0, entry.1) }
}
