internal import ArgumentParser
internal import Carillon
internal import PushServer

struct CampaignWatchCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "watch", abstract: "Shows a campaign's progress until it ends, and then its account.")

  @OptionGroup var campaign: CampaignCommand.Named

  func run() async throws { try await Self.watch(try campaign.service.client(), campaign.path) }

  /// - Throws: ``ExitStatus/findings`` if it ends without having finished.
  static func watch(_ client: ServiceClient, _ path: String) async throws {
    let isTerminal = StandardStream.error.isTerminal
    var isOver = false
    // The stream ends with the service, and perhaps with a proxy: the next one begins with a
    // snapshot.
    while !isOver {
      isOver = try await client.events(.get("\(path)/events")) { event in
        guard let campaign = event.campaign else { return true }
        let isEnd = event.name == "end"
        show(line(campaign), isTerminal: isTerminal, stays: isEnd || event.name != "progress")
        if isEnd { return false }
        return true
      }
    }
    let reply = try await client.send(.get("\(path)/account"))
    StandardStream.output.writeLine(AccountTable.text(try reply.decoded(AccountJSON.File.self).snapshot))
    let campaign = try await client.send(.get(path)).decoded(ServiceCampaign.self)
    if campaign.state != "finished" { throw ExitStatus.findings }
  }

  /// On a terminal, progress is replaced by the next line.
  private static func show(_ line: String, isTerminal: Bool, stays: Bool) {
    guard isTerminal else { return StandardStream.error.writeLine(line) }
    _ = StandardStream.error.write(Array("\r\(line)\u{1B}[K\(stays ? "\n" : "")".utf8))
  }

  private static func line(_ campaign: ServiceCampaign) -> String {
    var line = campaign.state
    if let progress = campaign.progress {
      let percent = progress.fractionRead.map { "\(Int($0 * 100)) % read, " } ?? ""
      line += ": \(percent)\(NumberText.grouped(progress.accepted)) accepted, "
      line += "\(NumberText.grouped(progress.rejected + progress.others)) not, "
      line += "\(NumberText.grouped(progress.inFlight)) in flight"
    }
    if let reason = campaign.reason { line += " (\(reason))" }
    return line
  }
}
