internal import ArgumentParser
internal import Carillon
internal import PushSend
internal import PushServer
internal import PushWire
internal import Synchronization

struct CampaignWatchCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "watch", abstract: "Shows a campaign's progress until it ends, and then its account.",
    discussion: "A service that starts again meanwhile may take a minute.")

  @OptionGroup var campaign: CampaignCommand.Named

  func run() async throws { try await Self.watch(try campaign.service.client(), campaign.path) }

  /// A service that is away for longer is not waited for.
  private static let silenceLimit = Duration.seconds(60)

  /// - Throws: ``ExitStatus/findings`` if it ends without having finished.
  static func watch(_ client: APIClient, _ path: String) async throws {
    let stream = StandardStream.error
    let display = Mutex(WatchDisplay(stream.isTerminal ? .terminal(columns: stream.columnCount) : .log))
    let start = ContinuousClock.now
    let heard = Mutex<Duration?>(nil)
    var isOver = false
    // The stream ends with the service or a proxy: the next one begins with a snapshot.
    while !isOver {
      do {
        isOver = try await client.events(.get("\(path)/events")) { event in
          guard let campaign = event.campaign else { return true }
          let (now, isEnd) = (ContinuousClock.now - start, event.name == "end")
          heard.withLock { $0 = now }
          let text = display.withLock { $0.text(campaign, isEnd: isEnd, now: now) }
          if !text.isEmpty { _ = stream.write(Array(text.utf8)) }
          return !isEnd
        }
      } catch let failure as ServiceFailure where failure.status == nil {
        guard let last = heard.withLock({ $0 }), ContinuousClock.now - start - last < silenceLimit else {
          throw failure
        }
      }
      if !isOver { try await Task.sleep(for: .seconds(1)) }
    }
    let reply = try await client.send(.get("\(path)/account"))
    StandardStream.output.writeLine(AccountTable.text(try reply.decoded(AccountJSON.File.self).snapshot))
    let campaign = try await client.send(.get(path)).decoded(ServiceCampaign.self)
    if campaign.state != "finished" { throw ExitStatus.findings }
  }
}
