/// What this program is, and what it was built from.
package struct ProgramFacts: Sendable {
  package static let version = "0.1.0"

  /// The first digits of the commit; empty: it was not built in a repository.
  package let commit: String
  /// Files that the repository knows had changed since that commit.
  package let isChanged: Bool
  /// With their versions.
  package let packages: [(name: String, version: String)]

  package init(commit: String = "", isChanged: Bool = false, packages: [(name: String, version: String)] = []) {
    (self.commit, self.isChanged, self.packages) = (commit, isChanged, packages)
  }

  /// The commit as it is shown; empty: it is not known.
  var commitText: String { isChanged ? "\(commit)+changes" : commit }

  /// One line, such as `0.1.0 (5c9d8879a1b2)`.
  package var text: String { commit.isEmpty ? Self.version : "\(Self.version) (\(commitText))" }
}
