internal import Foundation

/// Measured quantities as text.
package enum Figures {
  /// 950/s, 12.3 k/s, 3.51 M/s.
  package static func rate(_ perSecond: Double) -> String { scaled(perSecond, [(1e6, " M"), (1e3, " k")]) + "/s" }

  /// 12.3 µs, 4.56 ms, 1.20 s; the argument is in nanoseconds.
  package static func time(_ nanoseconds: Double) -> String {
    switch nanoseconds {
    case 0: "0"
    case ..<1e3: "\(decimal(nanoseconds)) ns"
    case ..<1e6: "\(decimal(nanoseconds / 1e3)) µs"
    case ..<1e9: "\(decimal(nanoseconds / 1e6)) ms"
    default: "\(decimal(nanoseconds / 1e9)) s"
    }
  }

  /// 512 B, 64.0 KiB, 52.1 MiB.
  package static func bytes(_ count: Double) -> String {
    count < 1024
      ? "\(Int(count.rounded())) B" : scaled(count, [(1_073_741_824, " GiB"), (1_048_576, " MiB"), (1024, " KiB")])
  }

  package static func percent(_ fraction: Double) -> String { "\(Int((fraction * 100).rounded())) %" }

  /// Three significant digits: 3.51, 35.1, 351.
  package static func decimal(_ number: Double) -> String {
    let size = abs(number)
    return String(format: size < 9.995 ? "%.2f" : size < 99.95 ? "%.1f" : "%.0f", number)
  }

  private static func scaled(_ number: Double, _ units: [(size: Double, name: String)]) -> String {
    for unit in units where number >= unit.size { return decimal(number / unit.size) + unit.name }
    return number == number.rounded() ? "\(Int(number))" : decimal(number)
  }
}
