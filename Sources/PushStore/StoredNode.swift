/// A process that uses a store which several machines share.
package struct StoredNode: Hashable, Sendable {
  /// Of its machine, or of its place in the deployment.
  package let name: String
  /// Counts the processes of all nodes.
  package let incarnation: Int64
  /// Counted by the process while it lives.
  package let beat: Int64
  /// False: it has left, or another one has taken its place.
  package let isAlive: Bool
  /// It does what only one may do.
  package let leads: Bool

  package init(name: String, incarnation: Int64, beat: Int64, isAlive: Bool, leads: Bool = false) {
    (self.name, self.incarnation, self.beat) = (name, incarnation, beat)
    (self.isAlive, self.leads) = (isAlive, leads)
  }
}
