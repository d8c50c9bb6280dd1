/// A first-in, first-out queue in a circular buffer. The buffer doubles when it is full and never
/// shrinks, so a steady state allocates nothing.
struct Queue<Element> {
  private var slots: [Element?] = Array(repeating: nil, count: 16)
  private var head = 0
  private(set) var count = 0

  var first: Element? { count > 0 ? slots[head] : nil }

  subscript(offset: Int) -> Element {
    precondition(offset >= 0 && offset < count, "queue offset")
    guard let element = slots[index(offset)] else { preconditionFailure("a slot inside the queue is empty") }
    return element
  }

  mutating func append(_ element: Element) {
    if count == slots.count { grow() }
    slots[index(count)] = element
    count += 1
  }

  mutating func removeFirst() {
    precondition(count > 0, "empty queue")
    slots[head] = nil
    head = index(1)
    count -= 1
  }

  mutating func removeAll() {
    while count > 0 { removeFirst() }
  }

  mutating func update(at offset: Int, _ change: (inout Element) -> Void) {
    var element = self[offset]
    change(&element)
    slots[index(offset)] = element
  }

  mutating func replaceFirst(with element: Element) {
    precondition(count > 0, "empty queue")
    slots[head] = element
  }

  private func index(_ offset: Int) -> Int { (head + offset) & (slots.count - 1) }

  private mutating func grow() {
    var larger: [Element?] = []
    larger.reserveCapacity(slots.count * 2)
    for offset in 0..<count { larger.append(slots[index(offset)]) }
    larger.append(contentsOf: repeatElement(nil, count: slots.count * 2 - count))
    slots = larger
    head = 0
  }
}

extension Queue: Sendable where Element: Sendable {}
