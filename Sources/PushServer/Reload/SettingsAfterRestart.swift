internal import Carillon

extension ServerConfiguration {
  /// The keys of the file whose values differ and count after the next start, without those of
  /// apps.
  func waiting(besides other: ServerConfiguration) -> [String] {
    var names: [String] = []
    func compare(_ name: String, _ value: (ServerConfiguration) -> some Equatable) {
      if value(self) != value(other) { names.append(name) }
    }
    compare("journal") { $0.journal }
    compare("api") { configuration in
      var api = configuration.api
      // Another certificate counts at once.
      api.certificate = nil
      return api
    }
    compare("admin") { $0.admin }
    compare("store") { $0.storePath }
    compare("shutdown") { $0.shutdown }
    compare("retention") { $0.retention }
    compare("bridge") { $0.bridge?.withoutFiles }
    return names
  }
}
