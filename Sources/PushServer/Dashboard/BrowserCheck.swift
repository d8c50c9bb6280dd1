/// Whether a request comes from a page of the service itself.
///
/// A page of another site can make a browser send requests here. `Host` shows a name that points to
/// this machine only for an attack (DNS rebinding), and `Origin` shows a foreign form.
struct BrowserCheck: Sendable {
  /// Names in lower case, beside `localhost` and addresses, which cannot be made to lead elsewhere.
  var names: Set<String> = []

  func knows(host: String?) -> Bool {
    guard let name = host.flatMap(Self.name) else { return false }
    return name == "localhost" || Self.isAddress(name) || names.contains(name)
  }

  /// - Parameters:
  ///   - origin: the header `Origin` of a request that changes something.
  ///   - fetchSite: the header `Sec-Fetch-Site`, which counts if there is no origin.
  func isOwn(origin: String?, fetchSite: String?, host: String?) -> Bool {
    guard let origin else { return fetchSite == "same-origin" }
    guard let host, let scheme = origin.firstRange(of: "://"), ["http", "https"].contains(origin[..<scheme.lowerBound])
    else { return false }
    return origin[scheme.upperBound...].lowercased() == host.lowercased()
  }

  /// The name without the port, in lower case.
  private static func name(_ host: String) -> String? {
    if host.hasPrefix("[") {
      guard let end = host.firstIndex(of: "]") else { return nil }
      return String(host[...end]).lowercased()
    }
    let parts = host.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count <= 2, let name = parts.first, !name.isEmpty else { return nil }
    return name.lowercased()
  }

  private static func isAddress(_ name: String) -> Bool {
    if name.hasPrefix("[") { return name.dropFirst().dropLast().allSatisfy { $0.isHexDigit || $0 == ":" || $0 == "." } }
    let parts = name.split(separator: ".", omittingEmptySubsequences: false)
    return parts.count == 4 && parts.allSatisfy { UInt8($0) != nil }
  }
}
