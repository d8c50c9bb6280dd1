package import PushStore

package enum CampaignState: String, Hashable, Sendable, CaseIterable {
  /// It can be changed, and its audience uploaded.
  case draft
  /// Its audience was uploaded in part.
  case uploading
  /// It begins by itself at its time.
  case scheduled
  /// It sends, or waits for the time of its next part.
  case running
  /// A person paused it. It waits until a person resumes it.
  case paused
  /// It cannot send at present. It resumes by itself after quiet hours, or with its app; or a
  /// person must say whether it does, because it may have been sent already.
  case held
  case finished
  /// What was not sent by then is not sent. What was in flight still gets its outcome.
  case cancelled
  /// It cannot be sent to its end.
  case failed

  /// Nothing more is sent.
  package var isOver: Bool { [.finished, .cancelled, .failed].contains(self) }
}

package enum CampaignEvent: Hashable, Sendable {
  case uploadBegan
  case uploadEnded(isComplete: Bool)
  /// Its description changes.
  case edited
  /// It is to begin, now or at its time.
  case started(isDue: Bool)
  /// Its time may have come.
  case due(isDue: Bool)
  /// The devices that it is for are fixed.
  case audienceFixed
  /// It is known how many they are.
  case audienceCounted
  case paused
  /// - isBegun: its time has come before.
  case resumed(isBegun: Bool)
  case cancelled
  /// It may have been sent already, or comes far too late: a person must say whether it is sent.
  case doubted
  /// A person has said that it is.
  case decided
  /// It cannot send at present.
  case hindered
  /// It can send again.
  case freed
  /// Everything has its outcome.
  case ended
  case failed
  /// Everything of a campaign that was cancelled or has failed has its outcome.
  case settled

  /// Nobody asked for it.
  var happensByItself: Bool {
    switch self {
    case .due, .doubted, .hindered, .freed, .ended, .failed, .settled: true
    case .uploadBegan, .uploadEnded, .edited, .started, .audienceFixed, .audienceCounted, .paused, .resumed,
      .cancelled, .decided:
      false
    }
  }
}

/// What an event makes of a campaign.
package enum CampaignTransition: Hashable, Sendable {
  case to(CampaignState)
  /// The state stays, and the event changes something else of the campaign.
  case edits
  /// Nothing changes: that is so already, or makes no difference.
  case stays
  /// The event does not fit the state; a sentence.
  case refused(String)
}

extension CampaignState {
  package func after(_ event: CampaignEvent) -> CampaignTransition {
    switch event {
    case .uploadBegan: uploadBegan
    case .uploadEnded(let isComplete):
      self == .uploading ? (isComplete ? .to(.draft) : .edits) : .refused(sentence("takes no upload"))
    case .edited:
      self == .draft || self == .scheduled
        ? .edits : .refused(sentence("cannot be changed; only a draft or scheduled one can"))
    case .started(let isDue): started(isDue)
    case .due(let isDue): self == .scheduled && isDue ? .to(.running) : .stays
    case .audienceFixed: [.running, .cancelled, .failed].contains(self) ? .edits : .stays
    case .audienceCounted: [.running, .paused, .held].contains(self) ? .edits : .stays
    case .paused: paused
    case .resumed(let isBegun): resumed(isBegun)
    case .cancelled: cancelled
    case .doubted: self == .scheduled || self == .running ? .to(.held) : self == .held ? .edits : .stays
    case .decided: self == .held ? .to(.running) : resumed(true)
    case .hindered: self == .running ? .to(.held) : .stays
    case .freed: self == .held ? .to(.running) : .stays
    case .ended: [.running, .paused, .held].contains(self) ? .to(.finished) : .stays
    case .failed: isOver ? .stays : .to(.failed)
    case .settled: self == .cancelled || self == .failed ? .edits : .stays
    }
  }

  private var uploadBegan: CampaignTransition {
    switch self {
    case .draft: .to(.uploading)
    case .uploading: .edits
    default: .refused(sentence("takes no audience any more"))
    }
  }

  private func started(_ isDue: Bool) -> CampaignTransition {
    switch self {
    case .draft: .to(isDue ? .running : .scheduled)
    case .uploading: .refused("The campaign's audience is not complete: upload the rest first.")
    case .scheduled, .running, .held, .finished: .stays
    case .paused: .refused("The campaign is paused: resume it.")
    case .cancelled, .failed: .refused(sentence("cannot be started"))
    }
  }

  private var paused: CampaignTransition {
    switch self {
    case .scheduled, .running, .held: .to(.paused)
    case .paused: .stays
    case .draft, .uploading, .finished, .cancelled, .failed: .refused(sentence("cannot be paused"))
    }
  }

  private func resumed(_ isBegun: Bool) -> CampaignTransition {
    switch self {
    case .paused: .to(isBegun ? .running : .scheduled)
    case .scheduled, .running, .held: .stays
    case .draft, .uploading, .finished, .cancelled, .failed: .refused(sentence("cannot be resumed"))
    }
  }

  private var cancelled: CampaignTransition {
    switch self {
    case .draft, .uploading, .scheduled, .running, .paused, .held: .to(.cancelled)
    case .cancelled: .stays
    case .finished, .failed: .refused(sentence("cannot be cancelled"))
    }
  }

  private func sentence(_ rest: String) -> String { "The campaign is \(rawValue), so it \(rest)." }
}

extension StoredUUID {
  /// What the journal calls a part of the campaign with this id.
  package func name(part: Int) -> String { "\(text)/\(part)" }

  /// Nil: the name is no part's.
  package static func part(named name: String) -> (id: StoredUUID, number: Int)? {
    let words = name.split(separator: "/", omittingEmptySubsequences: false)
    guard words.count == 2, let id = StoredUUID(String(words[0])), let number = Int(words[1]) else { return nil }
    return (id, number)
  }
}
