internal import Glibc
package import PushJournal
internal import Synchronization

/// A directory on a faulty disk. A loss of power may lose, tear or reorder what was not synced.
/// Writes and syncs may fail. After a given number of operations, all fail.
///
/// The calls and the generator determine everything, so a run can be repeated from its seed.
package final class SimulatedDisk: JournalFiles {
  private enum FileChange { case append([UInt8]), cut(Int) }
  private enum NameChange { case link(String, Int), unlink(String) }

  private struct Node {
    var durable: [UInt8] = []
    var pending: [FileChange] = []
    /// The content that a reader sees.
    var visible: [UInt8] = []
  }

  package enum Fault: Sendable {
    /// The write stores this many bytes and fails.
    case shortWrite(Int, code: Int32)
    case failedSync(code: Int32)
  }

  private struct State {
    var nodes: [Node] = []
    var names: [String: Int] = [:]
    var durableNames: [String: Int] = [:]
    var nameChanges: [NameChange] = []
    var isLocked = false
    /// Operations until the power fails; nil: it does not fail.
    var stepsLeft: Int?
    var isOff = false
    var writeFault: (after: Int, fault: Fault)?
    var syncFault: (after: Int, fault: Fault)?
    var operationFault: (after: Int, isLasting: Bool)?
    var hasFailed = false
    /// Counts the processes, so that files and locks of earlier ones are invalid.
    var life = 0
    var syncCount = 0
    var writeCount = 0
  }

  package let path = "simulated"
  private let state = Mutex(State())

  package init() {}

  // MARK: Controls for tests

  /// The power fails after this many more operations.
  package func fail(after steps: Int) { state.withLock { $0.stepsLeft = steps } }

  /// The write after `count` others has this fault.
  package func failWrite(after count: Int, _ fault: Fault) { state.withLock { $0.writeFault = (count, fault) } }

  /// The sync after `count` others fails.
  package func failSync(after count: Int, code: Int32 = EIO) {
    state.withLock { $0.syncFault = (count, .failedSync(code: code)) }
  }

  /// The operation after `count` others fails, or it and all later ones.
  package func failOperation(after count: Int, isLasting: Bool) {
    state.withLock { $0.operationFault = (count, isLasting) }
  }

  /// An operation has failed by ``failOperation(after:isLasting:)``.
  package var hasFailed: Bool { state.withLock { $0.hasFailed } }

  package var isOff: Bool { state.withLock { $0.isOff } }
  package var syncCount: Int { state.withLock { $0.syncCount } }
  package var writeCount: Int { state.withLock { $0.writeCount } }

  /// The process has ended and another begins. Everything written is present.
  package func restart() {
    state.withLock { state in
      state.isLocked = false
      state.isOff = false
      state.stepsLeft = nil
      state.operationFault = nil
      state.writeFault = nil
      state.syncFault = nil
      state.life += 1
    }
  }

  /// The machine has lost power and restarts. What was not synced is present, lost or partly
  /// present.
  package func loseUnsynced(using generator: inout SeededGenerator) {
    restart()
    state.withLock { state in
      var names = state.durableNames
      for change in state.nameChanges where generator.chance(50) {
        switch change {
        case .link(let name, let node): names[name] = node
        case .unlink(let name): names[name] = nil
        }
      }
      state.names = names
      state.durableNames = names
      state.nameChanges = []
      for index in state.nodes.indices { Self.loseUnsynced(&state.nodes[index], using: &generator) }
    }
  }

  private static func loseUnsynced(_ node: inout Node, using generator: inout SeededGenerator) {
    var bytes = node.durable
    for change in node.pending {
      switch change {
      case .append(let added):
        switch Int.random(in: 0..<4, using: &generator) {
        case 0: bytes += added
        case 1: bytes += Array(repeating: 0, count: added.count)
        case 2:
          let kept = Int.random(in: 0...added.count, using: &generator)
          bytes += added.prefix(kept) + Array(repeating: 0, count: added.count - kept)
        default:
          // The end is present and the beginning is not.
          let lost = Int.random(in: 0...added.count, using: &generator)
          bytes += generator.bytes(lost) + added.dropFirst(lost)
        }
      case .cut(let count): if generator.chance(50) { bytes.removeLast(max(0, bytes.count - count)) }
      }
    }
    if bytes.count > node.durable.count, generator.chance(50) {
      bytes.removeLast(Int.random(in: 0...(bytes.count - node.durable.count), using: &generator))
    }
    node = Node(durable: bytes, visible: bytes)
  }

  package var fileNames: [String] { state.withLock { $0.names.keys.sorted() } }

  package func contents(_ name: String) -> [UInt8]? {
    state.withLock { state in state.names[name].map { state.nodes[$0].visible } }
  }

  /// Stores a file durably. It replaces a file with that name.
  package func put(_ name: String, _ bytes: [UInt8]) {
    state.withLock { state in
      state.nodes.append(Node(durable: bytes, visible: bytes))
      state.names[name] = state.nodes.count - 1
      state.durableNames[name] = state.nodes.count - 1
    }
  }

  /// Removes a file durably.
  package func remove(_ name: String) {
    state.withLock { state in
      state.names[name] = nil
      state.durableNames[name] = nil
    }
  }

  // MARK: JournalFiles

  private func operate<Value: Sendable>(
    _ operation: JournalFileError.Operation, _ name: String, life: Int? = nil,
    _ body: (inout State) throws(JournalFileError) -> Value
  ) throws(JournalFileError) -> Value {
    let result: Result<Value, JournalFileError> = state.withLock { state in
      if let steps = state.stepsLeft {
        if steps == 0 { state.isOff = true }
        state.stepsLeft = max(0, steps - 1)
      }
      guard !state.isOff, life == nil || life == state.life else {
        return .failure(JournalFileError(operation, path: name, code: ENODEV))
      }
      if let (after, isLasting) = state.operationFault {
        state.operationFault = after == 0 && !isLasting ? nil : (max(0, after - 1), isLasting)
        if after == 0 {
          state.hasFailed = true
          return .failure(JournalFileError(operation, path: name, code: EIO))
        }
      }
      do throws(JournalFileError) { return .success(try body(&state)) } catch { return .failure(error) }
    }
    return try result.get()
  }

  package func takeLock() throws(JournalFileError) -> JournalLockAttempt {
    try operate(.lock, path) { state in
      if state.isLocked { return .held(by: 1) }
      state.isLocked = true
      return .taken(Lock(disk: self, life: state.life))
    }
  }

  package func list() throws(JournalFileError) -> [String] {
    try operate(.list, path) { state in Array(state.names.keys) }
  }

  package func create(_ name: String) throws(JournalFileError) -> any JournalFile {
    try operate(.create, name) { state throws(JournalFileError) in
      guard state.names[name] == nil else { throw JournalFileError(.create, path: name, code: EEXIST) }
      state.nodes.append(Node())
      state.names[name] = state.nodes.count - 1
      state.nameChanges.append(.link(name, state.nodes.count - 1))
      return File(disk: self, node: state.nodes.count - 1, name: name, life: state.life)
    }
  }

  package func open(_ name: String, writable: Bool) throws(JournalFileError) -> any JournalFile {
    try operate(.open, name) { state throws(JournalFileError) in
      guard let node = state.names[name] else { throw JournalFileError(.open, path: name, code: ENOENT) }
      return File(disk: self, node: node, name: name, life: state.life)
    }
  }

  package func delete(_ name: String) throws(JournalFileError) {
    try operate(.delete, name) { state throws(JournalFileError) in
      guard state.names.removeValue(forKey: name) != nil else {
        throw JournalFileError(.delete, path: name, code: ENOENT)
      }
      state.nameChanges.append(.unlink(name))
    }
  }

  package func syncDirectory() throws(JournalFileError) {
    try operate(.syncDirectory, path) { state throws(JournalFileError) in
      try Self.takeSyncFault(&state, name: path)
      state.durableNames = state.names
      state.nameChanges = []
    }
  }

  private static func takeSyncFault(_ state: inout State, name: String) throws(JournalFileError) {
    state.syncCount += 1
    guard let (after, fault) = state.syncFault, case .failedSync(let code) = fault else { return }
    state.syncFault = after == 0 ? nil : (after - 1, fault)
    if after == 0 { throw JournalFileError(.sync, path: name, code: code) }
  }

  private final class Lock: JournalLock {
    private let disk: SimulatedDisk
    private let life: Int

    init(disk: SimulatedDisk, life: Int) {
      self.disk = disk
      self.life = life
    }

    func release() { disk.state.withLock { if $0.life == life { $0.isLocked = false } } }
  }

  private final class File: JournalFile {
    private let disk: SimulatedDisk
    private let node: Int
    private let name: String
    private let life: Int

    init(disk: SimulatedDisk, node: Int, name: String, life: Int) {
      self.disk = disk
      self.node = node
      self.name = name
      self.life = life
    }

    func byteCount() throws(JournalFileError) -> Int {
      try disk.operate(.read, name, life: life) { [node] in $0.nodes[node].visible.count }
    }

    func append(_ bytes: UnsafeRawBufferPointer) throws(JournalFileError) {
      let bytes = unsafe Array(bytes)
      try disk.operate(.write, name, life: life) { [node, name] state throws(JournalFileError) in
        state.writeCount += 1
        var written = bytes
        var code: Int32 = 0
        if let (after, fault) = state.writeFault, case .shortWrite(let count, let reason) = fault {
          state.writeFault = after == 0 ? nil : (after - 1, fault)
          if after == 0 { (written, code) = (Array(bytes.prefix(count)), reason) }
        }
        state.nodes[node].visible += written
        state.nodes[node].pending.append(.append(written))
        if code != 0 { throw JournalFileError(.write, path: name, code: code) }
      }
    }

    func sync() throws(JournalFileError) {
      try disk.operate(.sync, name, life: life) { [node, name] state throws(JournalFileError) in
        try SimulatedDisk.takeSyncFault(&state, name: name)
        state.nodes[node].durable = state.nodes[node].visible
        state.nodes[node].pending = []
      }
    }

    func read(at offset: Int, into buffer: UnsafeMutableRawBufferPointer) throws(JournalFileError) -> Int {
      let bytes = try disk.operate(.read, name, life: life) { [node] in Array($0.nodes[node].visible.dropFirst(offset))
      }
      let count = min(bytes.count, buffer.count)
      unsafe buffer.copyBytes(from: bytes.prefix(count))
      return count
    }

    func truncate(to byteCount: Int) throws(JournalFileError) {
      try disk.operate(.truncate, name, life: life) { [node] state in
        state.nodes[node].visible.removeLast(max(0, state.nodes[node].visible.count - byteCount))
        state.nodes[node].pending.append(.cut(byteCount))
      }
    }

    func close() {}
  }
}
