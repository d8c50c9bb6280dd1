import Carillon

/// Consumer PORT FOLDER: sends over HTTP/2 to the simulator on that port, with the certificates
/// that `carillon simulate --make-certificates FOLDER` has made.
guard CommandLine.arguments.count == 3, let port = Int(CommandLine.arguments[1]) else {
  preconditionFailure("usage: Consumer PORT FOLDER")
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
  group.cancelAll()
}
