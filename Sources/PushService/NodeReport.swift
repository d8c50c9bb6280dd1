internal import Carillon
internal import HTTPTypes
package import PushStore

/// A node as people see it.
package struct NodeReport: Sendable {
  package let node: StoredNode
  package let work: NodeWork
  /// Its settings are not those of the node that leads, though they must be the same.
  package let isConfiguredOtherwise: Bool
}

extension StoredNode {
  package enum State: String, Hashable, Sendable, CaseIterable {
    case running
    /// It gives back what it carries, and takes nothing new.
    case draining
    /// It has not beaten for so long that something is wrong.
    case silent
    /// It was silent, and others have taken its place.
    case lost
    case ended
  }

  package var state: State {
    guard isAlive else { return isLost ? .lost : .ended }
    if silence > facts.lease / 2 { return .silent }
    return isDraining ? .draining : .running
  }

  /// How far two clocks may be apart before somebody should look.
  package static let clockTolerance = Duration.seconds(1)

  /// Those that are alive and told another configuration than the one that leads.
  package static func configuredOtherwise(_ nodes: [StoredNode]) -> Set<String> {
    guard let leader = nodes.first(where: \.leads)?.facts.configuration, !leader.isEmpty else { return [] }
    return Set(
      nodes.filter { $0.isAlive && !$0.facts.configuration.isEmpty && $0.facts.configuration != leader }.map(\.name))
  }
}

extension NodeMembership {
  /// All nodes, in the order of their names; this process, if no other one can use the store.
  package func reports() async throws(StoreError) -> [NodeReport] {
    guard let nodes = try await store.nodes() else {
      return [NodeReport(node: onlyNode, work: NodeWork(), isConfiguredOtherwise: false)]
    }
    let work = try await store.ledger?.nodeWork() ?? [:]
    let others = StoredNode.configuredOtherwise(nodes)
    return nodes.map { node in
      NodeReport(
        node: node, work: work[node.name] ?? NodeWork(), isConfiguredOtherwise: others.contains(node.name))
    }
  }

  /// Asks a node to give back what it carries and to take nothing more, or to go on. It hears of it
  /// when it looks next.
  ///
  /// - Throws: ``Problem`` with 404 or 409; ``StoreError``.
  package func setDraining(_ isDraining: Bool, _ name: String) async throws -> NodeReport {
    let known = try await report(name)
    guard isShared else {
      throw Problem(
        .conflict, "One node", "No other service can use this store, so nobody could take over.",
        action: "End the service instead: it resumes everything at its next start.")
    }
    guard known.node.isAlive, try await store.setDraining(isDraining, node: name) else {
      throw Problem(
        .conflict, "Not alive", "The node \(name) does not serve: its state is \(known.node.state.rawValue).",
        action: "Others carry on what it can have left; \"carillon node forget\" removes it from the list.")
    }
    await look()
    return try await report(name)
  }

  /// Removes a node that does not serve any more.
  ///
  /// - Returns: what was known of it.
  /// - Throws: ``Problem`` with 404, or with 409 if it lives; ``StoreError``.
  package func forget(_ name: String) async throws -> NodeReport {
    let known = try await report(name)
    guard isShared, try await store.forget(node: name) else {
      throw Problem(
        .conflict, "Alive", "The node \(name) is alive: its state is \(known.node.state.rawValue).",
        action: "Drain it, end its service, and then forget it.")
    }
    await look()
    return known
  }

  private func report(_ name: String) async throws -> NodeReport {
    guard let known = try await reports().first(where: { $0.node.name == name }) else {
      throw Problem.missing("node \(name.cited)")
    }
    return known
  }
}
