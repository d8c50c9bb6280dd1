internal import Hummingbird

extension Parameters {
  /// - Throws: ``Problem`` with 400 if it is no whole number in the range.
  func integer(_ name: String, in range: ClosedRange<Int>) throws -> Int? {
    guard let text = self[name[...]] else { return nil }
    guard let number = Int(text), range.contains(number) else {
      throw Problem.malformed("The parameter \(name) must be from \(range.lowerBound) to \(range.upperBound).")
    }
    return number
  }
}
