internal import Carillon
internal import PushEngine

/// The token file of a campaign in a journal. The journal has no tokens of lines that are nothing
/// but a token: it says where in this file they are.
struct CampaignTokenFile {
  let path: String
  let fingerprint: FileFingerprint

  /// - Parameter isCompared: it is known to be what it was.
  /// - Throws: if it is not, or cannot be read.
  func open(isCompared: Bool) throws(CarillonError) -> AudienceFile {
    if !isCompared, let difference = try fingerprint.difference(of: path) {
      throw CarillonError(.journalContent, difference)
    }
    return try describingErrors { try AudienceFile(path: path) }
  }
}
