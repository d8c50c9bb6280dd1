/// Numbers as people read them.
package enum NumberText {
  /// 1234567 as 1,234,567.
  package static func grouped(_ number: Int) -> String {
    var digits = String(number.magnitude)
    var groups: [String] = []
    while digits.count > 3 {
      groups.insert(String(digits.suffix(3)), at: 0)
      digits = String(digits.dropLast(3))
    }
    return (number < 0 ? "-" : "") + ([digits] + groups).joined(separator: ",")
  }

  /// "1 line", "2 lines", "1,000 lines".
  ///
  /// - Parameter noun: in the singular. Its plural ends with s.
  package static func count(_ number: Int, _ noun: String) -> String {
    "\(grouped(number)) \(noun)\(number == 1 ? "" : "s")"
  }

  /// The rate 3.4567 as 3.4/s, 12345.6 as 12,346/s.
  package static func rate(_ perSecond: Double) -> String {
    if perSecond >= 10 || perSecond == 0 { return "\(grouped(Int(perSecond.rounded())))/s" }
    return "\(Double(Int(perSecond * 10)) / 10)/s"
  }

  /// The age of something: 119 s, 119 min, 47 h, 2 days.
  package static func age(_ duration: Duration) -> String {
    let seconds = duration.components.seconds
    switch seconds {
    case ..<120: return "\(max(0, seconds)) s"
    case ..<7200: return "\(seconds / 60) min"
    case ..<172_800: return "\(seconds / 3600) h"
    default: return "\(seconds / 86_400) days"
    }
  }

  /// A size: 10,239 B, 20 KiB, 1,000 MiB.
  package static func bytes(_ count: Int) -> String {
    switch count {
    case ..<(10 << 10): return "\(grouped(count)) B"
    case ..<(10 << 20): return "\(grouped(count >> 10)) KiB"
    case ..<(10 << 30): return "\(grouped(count >> 20)) MiB"
    default: return "\(grouped(count >> 30)) GiB"
    }
  }

  /// 0.617 as 61.7 %.
  package static func percent(_ share: Double) -> String { "\(decimal(share * 100, places: 1)) %" }

  /// 0.52 s, 12.3 s, 2 min 05 s, 1 h 02 min.
  package static func seconds(_ seconds: Double) -> String {
    let whole = Int(max(0, min(seconds, 1e9)).rounded())
    if seconds < 9.995 { return "\(decimal(max(0, seconds), places: 2)) s" }
    if seconds < 59.95 { return "\(decimal(seconds, places: 1)) s" }
    if whole < 3600 { return "\(whole / 60) min \(twoDigits(whole % 60)) s" }
    return "\(whole / 3600) h \(twoDigits(whole % 3600 / 60)) min"
  }

  private static func twoDigits(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }

  private static func decimal(_ number: Double, places: Int) -> String {
    let scale = places == 1 ? 10 : 100
    let scaled = Int((number * Double(scale)).rounded())
    let fraction = String(scaled % scale)
    return "\(scaled / scale)." + String(repeating: "0", count: places - fraction.count) + fraction
  }
}
