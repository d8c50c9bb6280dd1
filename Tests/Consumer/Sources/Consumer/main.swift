import Carillon

/// Consumer PORT FOLDER [COUNT]: sends over HTTP/2 to the simulator on that port, with the
/// certificates that `carillon simulate --make-certificates FOLDER` has made. With a count, it
/// sends so many more, one after the other, and says how long the callers waited.
guard (3...4).contains(CommandLine.arguments.count), let port = Int(CommandLine.arguments[1]),
  let timedCount = CommandLine.arguments.count == 4 ? Int(CommandLine.arguments[3]) : 0
else {
  preconditionFailure("usage: Consumer PORT FOLDER [COUNT]")
}
let (topic, folder) = ("com.example.news", CommandLine.arguments[2])

var news = AppConfiguration(
  id: "news", topic: topic, transport: .http2(),
  credential: .certificate(file: "\(folder)/\(topic).pem", key: "\(folder)/\(topic).key"))
news.gateway = .init(host: "127.0.0.1", port: port)
news.trustedAuthorities = "\(folder)/ca.pem"

let deployment = try Deployment(apps: [news])
try await withThrowingTaskGroup(of: Void.self) { group in
  group.addTask { try await deployment.run() }
  let app = try deployment.app("news")

  let hello = PushNotification(alert: "Hello", badge: 1)
  let outcome = try await app.send(hello, to: DeviceToken(hex: String(repeating: "0a", count: 32)))
  print("one notification: \(outcome)")

  let tokens = try (0..<1000).map {
    try DeviceToken(bytes: [UInt8($0 / 256), UInt8($0 % 256)] + [UInt8](repeating: 7, count: 30))
  }
  let campaign = try await app.startCampaign(PushNotification(alert: "Sale"), to: tokens)
  let account = try await campaign.result()
  print("a campaign: \(account.accepted) of \(account.submitted) accepted")

  var times: [Duration] = []
  for number in 0..<timedCount {
    let token = tokens[number % tokens.count]
    times.append(try await ContinuousClock().measure { _ = try await app.send(hello, to: token) })
  }
  times.sort()
  if let longest = times.last {
    let (median, late) = (times[times.count / 2], times[times.count * 99 / 100])
    print("\(times.count) single ones: median \(median), p99 \(late), longest \(longest)")
  }
  group.cancelAll()
}
