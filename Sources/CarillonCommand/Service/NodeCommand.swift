internal import ArgumentParser
internal import Carillon
internal import PushServer
internal import PushWire

struct NodeCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "node", abstract: "Shows and steers the services that share a database.",
    discussion: """
      Any of them can be asked, about all of them:

        carillon node list --config carillon.yaml

      To end one without a doubt about anybody, drain it, wait until it has no segments, end it, and start it again:

        carillon node drain --config carillon.yaml n2
        carillon node list --config carillon.yaml
        systemctl restart carillon        # on n2
      """,
    subcommands: [List.self, Drain.self, Resume.self, Forget.self])

  struct List: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Shows the nodes, and what needs attention.",
      discussion: """
        States: "running"; "draining": it gives back what it carries and takes nothing new; "silent": it has not \
        beaten for half of its lease; "lost": others have taken its place; "ended": it ended gracefully. "doubt" \
        counts notifications that may have arrived twice because others took over from the node.

        Exit status: 0 every node runs or is draining, 1 something needs attention, 2 the service refuses the \
        request, 3 it cannot be reached.
        """)

    @OptionGroup var service: ServiceOptions
    @Flag(help: "The service's own JSON, one line.") var json = false

    func run() async throws {
      let reply = try await service.client().send(.get("/v1/nodes"))
      let nodes = try reply.decoded(ServiceNodes.self).items
      if json {
        StandardStream.output.writeLine(String(decoding: reply.body, as: UTF8.self))
      } else {
        for line in ServiceNodes.lines(nodes) { StandardStream.output.writeLine(line) }
      }
      if nodes.contains(where: { !$0.notes.isEmpty }) { throw ExitStatus.findings }
    }
  }

  struct Drain: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Lets a node give back what it carries, and take nothing new.",
      discussion: """
        The other nodes go on with its segments at once, and nobody is in doubt. It answers new notifications, \
        batches, uploads and starts of campaigns with 503 and its /readyz too, so that a load balancer leaves it. It \
        sends what it has taken in, answers everything else, and lets another node lead, unless it has a bridge or \
        sends uploaded audiences: those stay with it until it ends. The node hears of it within a second, whichever \
        node is asked. Its next start ends it, and so does "carillon node resume".
        """)

    @OptionGroup var service: ServiceOptions
    @Argument(help: "The node's name.") var node: String

    func run() async throws {
      let node = try await service.change(node, "drain")
      StandardStream.output.writeLine(
        "The node \(node.name) is drained. It carries \(NumberText.count(node.segments, "segment")) of campaigns and "
          + "has \(NumberText.count(node.pending, "notification")) without an outcome; \"carillon node list\" shows "
          + "what is left.")
    }
  }

  struct Resume: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Lets a node that was drained take part again.")

    @OptionGroup var service: ServiceOptions
    @Argument(help: "The node's name.") var node: String

    func run() async throws {
      let node = try await service.change(node, "resume")
      StandardStream.output.writeLine("The node \(node.name) takes part again.")
    }
  }

  struct Forget: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Removes a node that does not serve any more from the list.",
      discussion: """
        Without --yes it only says what that would mean. A node that lives is not forgotten: drain it, and end its \
        service. One that was forgotten by mistake is there again when it starts.

        What others cannot have is in its journal: single notifications, batches, and what the bridge took. That is \
        sent when a service with this journal serves again, also after the node was forgotten. Without the journal \
        its outcome stays unknown.

        Exit status: 0 it is forgotten, 1 it would be, 2 the service refuses the request, 3 it cannot be reached.
        """)

    @OptionGroup var service: ServiceOptions
    @Flag(help: "Forget it.") var yes = false
    @Argument(help: "The node's name.") var node: String

    func run() async throws {
      let client = try service.client()
      guard !yes else {
        let forgotten = try await service.change(node, "forget")
        return StandardStream.output.writeLine("The node \(forgotten.name) is forgotten. \(forgotten.meaning)")
      }
      let nodes = try await client.send(.get("/v1/nodes")).decoded(ServiceNodes.self).items
      guard let known = nodes.first(where: { $0.name == node }) else {
        throw CommandFailure.usage("there is no node \(node.cited); \"carillon node list\" shows all of them")
      }
      guard ["lost", "ended"].contains(known.state) else {
        throw CommandFailure.usage("the node \(node) is \(known.state); drain it and end its service first")
      }
      StandardStream.output.writeLine("\(known.meaning) Add --yes to forget the node \(node).")
      throw ExitStatus.findings
    }
  }
}

extension ServiceOptions {
  fileprivate func change(_ node: String, _ action: String) async throws -> ServiceNodes.Node {
    try await client().send(.post("/v1/nodes/\(node.asPathSegment):\(action)")).decoded(ServiceNodes.Node.self)
  }
}

/// The nodes as the service describes them.
struct ServiceNodes: Decodable, Sendable {
  struct Node: Decodable, Sendable {
    struct TakenOver: Decodable, Sendable {
      let segments: Int
      let possibleDuplicates: Int
    }

    let name: String
    let state: String
    let leads: Bool
    let since: String?
    let lastBeatSeconds: Double
    let version: String?
    let configuration: String?
    let configurationDiffers: Bool
    let clockOffsetSeconds: Double?
    let segments: Int
    let pending: Int
    let takenOver: TakenOver
  }

  let items: [Node]

  /// A table, and a line for each thing that needs attention.
  static func lines(_ nodes: [Node]) -> [String] {
    let head = ["node", "state", "since", "beat", "version", "configuration", "segments", "pending", "doubt"]
    let rows = nodes.map { node in
      [
        node.name, node.leads ? "\(node.state), leads" : node.state, node.since ?? "-",
        NumberText.age(.seconds(node.lastBeatSeconds)), node.version ?? "-", node.configuration ?? "-",
        NumberText.grouped(node.segments), NumberText.grouped(node.pending),
        NumberText.grouped(node.takenOver.possibleDuplicates),
      ]
    }
    return TextTable.lines([head] + rows, leftAligned: [0, 1, 2, 4, 5]) + nodes.flatMap(\.notes)
  }
}

extension ServiceNodes.Node {
  /// What needs attention, as sentences.
  fileprivate var notes: [String] {
    var notes: [String] = []
    if state == "lost" { notes.append("\(name): others have taken its place. Start it again, or forget it.") }
    if state == "silent" { notes.append("\(name): it does not beat. See whether it runs and reaches the database.") }
    if configurationDiffers {
      notes.append("\(name): its apps or their settings are not those of the node that leads.")
    }
    if let offset = clockOffsetSeconds, abs(offset) > 1 {
      notes.append("\(name): its clock is \((offset * 10).rounded() / 10) s ahead of the database's.")
    }
    return notes
  }

  /// What it means to forget it.
  fileprivate var meaning: String {
    let count = pending == 0 ? "none" : NumberText.count(pending, "notification")
    return "It had \(count) without an outcome when it was last heard of. Campaigns go on without it. Other "
      + "notifications are in its journal: they are unknown from now on, unless a service with that journal serves "
      + "again, which sends them."
  }
}
