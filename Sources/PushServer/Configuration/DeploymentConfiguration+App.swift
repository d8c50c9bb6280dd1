package import Carillon

extension DeploymentConfiguration {
  /// The app with this id; without one, the only app there is.
  package func app(_ id: String?, file: String) throws(CarillonError) -> AppConfiguration {
    let ids = apps.map(\.id)
    guard let id else {
      guard apps.count == 1 else {
        throw CarillonError(
          .configuration, "\(file) has several apps, so one must be named: \(ids.joined(separator: ", "))")
      }
      return apps[0]
    }
    if let found = apps.first(where: { $0.id == id }) { return found }
    let advice =
      Suggestion.nearest(to: id, in: ids).map { "did you mean \"\($0)\"?" } ?? "it has \(ids.joined(separator: ", "))."
    throw CarillonError(.configuration, "\(file) has no app \"\(id)\"; \(advice)")
  }
}
