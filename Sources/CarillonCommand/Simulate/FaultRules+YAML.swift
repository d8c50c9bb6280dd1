internal import Carillon
internal import PushGateway
internal import PushServer

extension FaultRules {
  /// Reads the simulator's fault rules from a file. Relative paths start at the file's folder.
  ///
  /// - Parameter overrides: replaces these keys at the top of the file, and single ones of `http2`.
  static func read(file: String, overrides: [String: RuleTree] = [:]) throws(ConfigurationError) -> FaultRules {
    let node = try YAMLNode.read(file: file)
    guard case .map(var tree) = RuleTree(node) else {
      throw node.error("must hold keys and values, as in \"answer-delay: 200ms\"")
    }
    var overrides = overrides
    if case .map(let read) = tree["http2"], case .map(let keys) = overrides["http2"] {
      overrides["http2"] = .map(read.merging(keys) { $1 })
    }
    tree.merge(overrides) { $1 }
    do throws(FaultRulesError) {
      var rules = try FaultRules(.map(tree))
      for index in rules.service.keys.indices {
        rules.service.keys[index].file = FilePath.resolve(rules.service.keys[index].file, besides: file)
      }
      return rules
    } catch {
      let problem = error.path.isEmpty ? error.problem : "\(error.path) \(error.problem)"
      throw ConfigurationError(file: file, line: node.descendant(error.path)?.line, problem: problem)
    }
  }
}

extension RuleTree {
  fileprivate init(_ node: YAMLNode) {
    self =
      switch node.content {
      case .text(let text): .text(text)
      case .list(let nodes): .list(nodes.map(RuleTree.init))
      case .map(let entries): .map(Dictionary(entries.map { ($0.key, RuleTree($0.value)) }) { _, last in last })
      }
  }
}

extension YAMLNode {
  /// The value with this path; nil if there is none.
  fileprivate func descendant(_ path: String) -> YAMLNode? {
    if self.path == path { return self }
    switch content {
    case .text: return nil
    case .list(let nodes): return nodes.lazy.compactMap { $0.descendant(path) }.first
    case .map(let entries): return entries.lazy.compactMap { $0.value.descendant(path) }.first
    }
  }
}
