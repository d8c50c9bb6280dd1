internal import Foundation
internal import Support
internal import Testing

@testable internal import PushEngine

/// Recovery from every state in which a killed process, or a disk with a bad byte, can leave the
/// journal of real campaigns.
@Suite struct JournalPrefixTests {
  /// - Parameter checkpointByteCount: Small enough that runs are compacted and segments have one or
  ///   two frames, or large enough for several frames.
  private static func record(_ checkpointByteCount: Int) throws -> RecordedCampaigns {
    try RecordedCampaigns(seed: 5, counts: [40, 30], killAfter: 600, checkpointByteCount: checkpointByteCount)
  }

  @Test(
    "from every prefix of the written bytes a new process knows every notification, and no less than before",
    arguments: [200, 2_500])
  func everyPrefix(checkpointByteCount: Int) throws {
    let recorded = try Self.record(checkpointByteCount)
    var previous = RecordedCampaigns.Found()
    var (count, distinct, lacking) = (0, 0, 0)
    var fates: Set<RecoveredRun.Fate> = []
    try RecordedDisk.forEachState(of: recorded.operations, step: checkpointByteCount < 1_000 ? 61 : 1) {
      operation, contents in
      let found: RecordedCampaigns.Found
      do { found = try recorded.open(contents) } catch {
        Issue.record("operation \(operation), prefix \(count): \(error)")
        throw error
      }
      count += 1
      for (index, campaign) in found.campaigns {
        fates.formUnion(campaign.open.values)
        #expect(campaign.lost == 0)
        // Exactly what lies before the line that has been read.
        #expect(campaign.account.submitted == recorded.entryCount(index, through: campaign.readLine), "prefix \(count)")
      }
      if let regress = recorded.regress(from: previous, to: found) {
        Issue.record("operation \(operation), prefix \(count): \(regress)")
      }
      if found.campaigns != previous.campaigns { distinct += 1 }
      if found.lackedTokens { lacking += 1 }
      previous = found
    }
    #expect(previous.campaigns.count == 2)
    for (index, campaign) in previous.campaigns {
      #expect(campaign.isEnded)
      #expect(campaign.open.isEmpty)
      #expect(campaign.account.submitted == recorded.tokens[index].count)
    }
    #expect(distinct > 50)
    #expect(fates.count == 3)
    // Tokens were in the token file, and were in the journal.
    #expect((count / 10)..<count ~= lacking, "\(lacking) of \(count)")
  }

  @Test(
    "a bad byte is reported or in a torn tail; with damage skipped, the account adds up and counts what is lost",
    arguments: [200, 2_500])
  func damage(checkpointByteCount: Int) throws {
    let recorded = try Self.record(checkpointByteCount)
    var states: [(contents: RecordedDisk.Contents, found: RecordedCampaigns.Found)] = []
    var known: Set<[Int: RecordedCampaigns.Found.Campaign]> = []
    RecordedDisk.forEachState(of: recorded.operations, step: .max) { _, contents in
      // The states between these are prefixes, which recover like one of these.
      states.append((contents, RecordedCampaigns.Found()))
    }
    for index in states.indices {
      states[index].found = try recorded.open(states[index].contents)
      known.insert(states[index].found.campaigns)
    }
    var random = SeededGenerator(seed: 99)
    var (named, torn, lost) = (0, 0, 0)
    for round in 0..<1000 {
      let state = states[Int.random(in: states.indices, using: &random)]
      var contents = state.contents
      guard let name = contents.keys.sorted().randomElement(using: &random), var bytes = contents[name], !bytes.isEmpty
      else { continue }
      let offset = Int.random(in: bytes.indices, using: &random)
      bytes[offset] ^= UInt8(1) << UInt8.random(in: 0..<8, using: &random)
      contents[name] = bytes
      do {
        let found = try recorded.open(contents)
        // The state must equal one that a kill could have left.
        #expect(known.contains(found.campaigns), "round \(round): \(name), byte \(offset)")
        if found.isTorn { torn += 1 }
      } catch let problem as JournalProblem {
        #expect(problem.kind == .damaged, "round \(round): \(problem)")
        #expect(problem.description.contains("segment-"), "round \(round): \(problem)")
        named += 1
      } catch {
        Issue.record("round \(round): \(name), byte \(offset): \(error)")
      }
      do {
        let found = try recorded.open(contents, skipsDamage: true)
        lost += found.campaigns.values.map(\.lost).reduce(0, +)
        if !found.damage.isEmpty {
          let problems = recorded.hidden(in: found, comparedWith: state.found)
          for problem in problems {
            Issue.record("round \(round): \(name), byte \(offset): \(problem), \(found.damage)")
          }
        }
      } catch {
        Issue.record("round \(round): \(name), byte \(offset), skipping: \(error)")
      }
    }
    #expect(named > 400)
    #expect(torn > 5)
    #expect(lost > 100)
  }
}
