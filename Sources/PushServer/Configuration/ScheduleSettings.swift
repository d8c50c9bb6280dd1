internal import Carillon
internal import Foundation

extension YAMLNode {
  /// The name of a time zone.
  func timeZone() throws(ConfigurationError) -> String {
    let name = try text()
    guard TimeZone(identifier: name) != nil else {
      throw error("must be a time zone, such as Europe/Berlin, not \(name.cited)")
    }
    return name
  }

  func quietHours() throws(ConfigurationError) -> String {
    let text = try text()
    guard let hours = QuietHours(text) else {
      throw error("must be hours of the day, as in \"22:00-08:00\", not \(text.cited)")
    }
    return hours.description
  }
}

extension CampaignTimes.App {
  init(_ settings: AppSettings?) {
    isConfigured = settings != nil
    zone = settings?.timeZone.flatMap { TimeZone(identifier: $0) } ?? .gmt
    quietHours = settings?.quietHours.flatMap { QuietHours($0) }
    audienceByteLimit = settings.map { Int64($0.audienceByteCountOrDefault) } ?? .max
    openCampaignLimit = settings?.openCampaignCount ?? .max
  }
}
