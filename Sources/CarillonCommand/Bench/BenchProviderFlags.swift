internal import ArgumentParser
internal import Carillon
internal import PushBench
internal import PushWire

/// The flags of `bench` that speak of HTTP/2: a token key instead of a certificate, and the topic.
struct BenchProviderFlags: ParsableArguments {
  @Option(
    help: .init(
      "With --gateway: the app's bundle identifier (default: what the certificate says; needed with --token-key).",
      valueName: "bundle")) var topic: String?
  @OptionGroup var key: TokenKeyOptions

  var given: [String] { ([("--topic", topic != nil)] + key.given).compactMap { $1 ? $0 : nil } }
}

/// The variables of the transports, and which flags have a meaning with them.
struct BenchTransports {
  let transports: [AppSettings.Transport]

  init(_ text: String) throws {
    transports = try BenchFlags.list(text, flag: "--transport", example: "binary,http2", AppSettings.Transport.init)
  }

  /// Flags that only the binary protocol has a use for.
  func refuseWithoutBinary(_ flags: [(String, Bool)]) throws {
    guard !transports.contains(.binary) else { return }
    for (flag, isGiven) in flags where isGiven {
      throw ValidationError("\(flag) needs --transport binary: HTTP/2 knows nothing of the kind.")
    }
  }

  func refuseWithoutHTTP2(_ flags: [String]) throws {
    guard !transports.contains(.http2), let flag = flags.first else { return }
    throw ValidationError("\(flag) needs --transport http2.")
  }

  func streams(_ text: String?) throws -> [Int] {
    guard let text else { return BenchSweep().streams }
    try refuseWithoutHTTP2(["--streams"])
    let values = try BenchFlags.counts(text, flag: "--streams", in: 1...RequestPolicy.streamCountLimit)
    guard values.count == 1 || transports.first == .http2 else {
      throw ValidationError(
        "--streams takes several values only if --transport begins with http2, which the other variables are "
          + "measured with.")
    }
    return values
  }
}
