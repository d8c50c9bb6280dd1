internal import Foundation
internal import HTTPTypes
package import PushEngine
package import PushStore

/// The files of campaigns, beside the store: uploaded audiences, and what was not accepted.
package struct CampaignSpool: Sendable {
  package let directory: String

  package init(besides store: String) { directory = "\(store).campaigns" }

  func folder(_ id: StoredUUID) -> String { "\(directory)/\(id.text)" }
  package func audience(_ id: StoredUUID) -> String { "\(folder(id))/audience.csv" }
  /// What the file of the audience is made of, where nodes share a store.
  func pieces(_ id: StoredUUID) -> String { "\(folder(id))/audience.pieces" }
  package func audience(of record: StoredCampaign) -> KeptAudience {
    KeptAudience(
      path: audience(record.id), byteCount: Int(clamping: record.upload.byteCount),
      numbersRows: AudienceUpload.numbersRows(record.upload))
  }
  package func list(_ id: StoredUUID, part: Int) -> String { "\(folder(id))/outcomes-\(part).csv" }
  /// The list of a segment, until the ledger has its rows.
  func list(_ segment: SegmentID, epoch: Int64) -> String {
    "\(folder(segment.campaign))/outcomes-\(segment.part)-\(segment.firstKey)-\(epoch).csv"
  }
  func keys(_ id: StoredUUID, part: Int) -> String { "\(folder(id))/devices-\(part)" }
  /// Those who were left out when the campaign was divided.
  package func leftOut(_ id: StoredUUID) -> String { "\(folder(id))/left-out.csv" }

  /// - Throws: ``Problem`` with 507.
  package func make(_ id: StoredUUID) throws {
    do {
      // It holds device tokens.
      try FileManager.default.createDirectory(
        atPath: folder(id), withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    } catch {
      throw Self.problem(folder(id), error)
    }
  }

  func removeLeftOut(_ id: StoredUUID) throws {
    let path = leftOut(id)
    guard FileManager.default.fileExists(atPath: path) else { return }
    do { try FileManager.default.removeItem(atPath: path) } catch { throw Self.problem(path, error) }
  }

  func remove(_ id: StoredUUID) { try? FileManager.default.removeItem(atPath: folder(id)) }

  static func problem(_ path: String, _ error: any Error) -> Problem {
    let reason = (error as NSError).userInfo[NSUnderlyingErrorKey].map { "\($0)" } ?? error.localizedDescription
    return Problem(
      .init(code: 507, reasonPhrase: "Insufficient Storage"), "Not stored", "\(path) cannot be written: \(reason).")
  }
}
