/// Knows the names of Apple's hosts.
package enum AppleHosts {
  package static func isAppleName(_ host: String) -> Bool {
    let labels = host.lowercased().split(separator: ".").map(String.init)
    let domains = [
      ["apple", "com"], ["apple", "com", "cn"], ["icloud", "com"], ["aaplimg", "com"], ["apple-dns", "net"],
    ]
    return domains.contains { labels.count >= $0.count && Array(labels.suffix($0.count)) == $0 }
  }
}
