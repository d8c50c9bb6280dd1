internal import ArgumentParser
internal import Carillon
internal import Foundation
internal import PushServer
internal import PushWire

struct StatusCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "status", abstract: "Shows the apps of a running service and their state.",
    discussion: """
        carillon status --config carillon.yaml --watch

      Apps that need attention come first, and each says why it does not send. "waiting" means that the app tries, and \
      its gateway takes nothing. With --watch, a service that is away is asked again.

      Exit status: 0 every app runs, 1 some do not, 2 the service refuses the request, 3 it cannot be reached.
      """)

  @OptionGroup var service: ServiceOptions
  @Flag(help: "Show it again every second, until Ctrl-C.") var watch = false
  @Flag(help: "The service's own JSON, one line each time, or for each 1,000 apps.") var json = false

  func run() async throws {
    let client = try service.client()
    guard watch else {
      let (apps, bodies) = try await ServiceStatus.read(client)
      show(apps, bodies)
      if apps.contains(where: { $0.state != "running" }) { throw ExitStatus.findings }
      return
    }
    var screen = StatusScreen(isTerminal: StandardStream.output.isTerminal && !json)
    var hasAnswered = false
    repeat {
      do {
        let (apps, bodies) = try await ServiceStatus.read(client)
        hasAnswered = true
        if screen.isTerminal { screen.show(apps) } else { show(apps, bodies) }
      } catch let failure as ServiceFailure where failure.status == nil && hasAnswered {
        screen.show(failure)
      }
      try await Task.sleep(for: .seconds(1))
    } while StandardStream.output.problem == nil
  }

  private func show(_ apps: [ServiceStatus.App], _ bodies: [String]) {
    guard !json else {
      for body in bodies { StandardStream.output.writeLine(body) }
      return
    }
    let columns = StandardStream.output.isTerminal ? StandardStream.output.columnCount : nil
    let now = Int64(Date().timeIntervalSince1970)
    for line in ServiceStatus.lines(apps, columns: columns, now: now) { StandardStream.output.writeLine(line) }
  }
}

/// The terminal of `carillon status --watch`. Only what has changed is erased, against flicker.
private struct StatusScreen {
  let isTerminal: Bool
  private var hasShown = false
  private var last: [String] = []

  init(isTerminal: Bool) { self.isTerminal = isTerminal }

  mutating func show(_ apps: [ServiceStatus.App]) {
    let stream = StandardStream.output
    let now = Date()
    last = ServiceStatus.lines(
      apps, columns: stream.columnCount, rows: stream.rowCount.map { $0 - 1 }, now: Int64(now.timeIntervalSince1970))
    last[0] = "\(now.formatted(.iso8601).dropFirst(11).prefix(8)) UTC   \(last[0])"
    draw(last)
  }

  /// The last table stays.
  mutating func show(_ failure: ServiceFailure) {
    guard isTerminal else { return StandardStream.error.writeLine("carillon: \(failure)") }
    guard !last.isEmpty else { return }
    draw(["\(failure) It is asked again."] + last.dropFirst())
  }

  private mutating func draw(_ lines: [String]) {
    var text = hasShown ? "\u{1B}[H" : "\u{1B}[H\u{1B}[2J"
    hasShown = true
    let columns = StandardStream.output.columnCount
    text += lines.map { $0.withControlsEscaped.prefix(columns) + "\u{1B}[K" }.joined(separator: "\r\n")
    _ = StandardStream.output.write(Array((text + "\u{1B}[J\r\n").utf8))
  }
}
