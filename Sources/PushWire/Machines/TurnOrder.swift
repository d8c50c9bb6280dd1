/// Whose job runs next on an event loop: deficit round robin over flows, by the bytes that their
/// jobs have sent.
///
/// A flow is one app on the loop. In each round a flow may send its weight times ``quantum``. The
/// bytes of a job are known only after it has run, so a flow can send more than its share. Then it
/// waits for as many rounds as that takes, also when it has nothing to send meanwhile. A flow that
/// is alone pays nothing: with one ready app the order costs a few instructions a turn.
package struct TurnOrder: Sendable {
  private struct Flow: Sendable {
    var weight: Int
    /// Bytes that it may still send in this round; below zero: more than its share was sent.
    var credit = 0
    /// Jobs that wait.
    var readyCount = 0
    /// The flow behind it in the rotation.
    var next = TurnOrder.none
    var isInRotation = false
    var isRemoved = false
  }

  /// How many bytes a flow of weight 1 may send in a round.
  package static let quantum = 65_536
  private static let none = -1

  private var flows: [Flow] = []
  private var free: [Int] = []
  private var head = none
  private var tail = none
  /// Flows in the rotation: those with a job, and those that have sent more than their share.
  private var rotationCount = 0
  private var readyCount = 0

  package init() {}

  // MARK: Flows

  /// - Parameter weight: at least 1.
  package mutating func add(weight: Int) -> Int {
    precondition(weight >= 1, "a flow needs a weight")
    let flow = Flow(weight: weight)
    if let index = free.popLast() {
      flows[index] = flow
      return index
    }
    flows.append(flow)
    return flows.count - 1
  }

  /// Counts from its next round on.
  ///
  /// - Parameter weight: at least 1.
  package mutating func change(_ flow: Int, weight: Int) {
    precondition(weight >= 1, "a flow needs a weight")
    flows[flow].weight = weight
  }

  /// The flow has no job any more. Its number may be used again.
  package mutating func remove(_ flow: Int) {
    precondition(flows[flow].readyCount == 0 && !flows[flow].isRemoved, "a flow with jobs cannot be removed")
    flows[flow].isRemoved = true
    if !flows[flow].isInRotation { free.append(flow) }
  }

  // MARK: Jobs

  /// No job waits.
  package var isEmpty: Bool { readyCount == 0 }

  /// A job of the flow waits.
  package mutating func ready(_ flow: Int) {
    flows[flow].readyCount += 1
    readyCount += 1
    guard !flows[flow].isInRotation else { return }
    flows[flow].isInRotation = true
    flows[flow].credit = flows[flow].weight * Self.quantum
    rotationCount += 1
    append(flow)
  }

  /// The flow whose oldest job runs now; nil if no job waits.
  package mutating func next() -> Int? {
    guard readyCount > 0 else { return nil }
    while rotationCount > 1 {
      let flow = head
      if flows[flow].credit > 0, flows[flow].readyCount > 0 { return take(flow) }
      head = flows[flow].next
      if flows[flow].readyCount > 0 || flows[flow].credit < 0 {
        flows[flow].credit += flows[flow].weight * Self.quantum
      }
      if flows[flow].readyCount == 0, flows[flow].credit >= 0 { leave(flow) } else { append(flow) }
    }
    flows[head].credit = flows[head].weight * Self.quantum
    return take(head)
  }

  /// The job that ``next()`` named has run.
  package mutating func ran(_ flow: Int, byteCount: Int) { flows[flow].credit -= byteCount }

  private mutating func take(_ flow: Int) -> Int {
    flows[flow].readyCount -= 1
    readyCount -= 1
    return flow
  }

  // MARK: The rotation

  private mutating func append(_ flow: Int) {
    flows[flow].next = Self.none
    if rotationCount == 1 { head = flow } else { flows[tail].next = flow }
    tail = flow
  }

  private mutating func leave(_ flow: Int) {
    flows[flow].isInRotation = false
    rotationCount -= 1
    if flows[flow].isRemoved { free.append(flow) }
  }
}
