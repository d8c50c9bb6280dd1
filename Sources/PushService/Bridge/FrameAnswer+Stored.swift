internal import PushWire

extension FrameAnswer {
  /// The answer of an outcome as the store has it; see ``Outcome/Kind``.
  init(state: String, detail: String) {
    let kind = Outcome.Kind(rawValue: state)
    guard kind == .rejected else {
      self = [.accepted, .suppressed, .expired].contains(kind) ? .accepted : .refused(.processingError)
      return
    }
    let parts = detail.split(separator: " ", maxSplits: 1)
    let known = GatewayStatus.documented.first { $0.description == detail }
    if let known {
      self.init(Outcome.rejected(.status(known)))
    } else if let number = parts.first.flatMap({ UInt16($0) }), parts.count == 2 {
      self.init(
        Outcome.rejected(
          .provider(ProviderRefusal(status: number, reason: ProviderReason(rawValue: String(parts[1]))))))
    } else if detail == Rejection.payloadTooLarge.description {
      self.init(Outcome.rejected(.payloadTooLarge))
    } else {
      self = .refused(.processingError)
    }
  }
}
