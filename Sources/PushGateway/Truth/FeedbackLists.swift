package import PushWire
internal import Synchronization

/// What the feedback service has to tell each app, oldest first. Reading clears: a tuple is handed out once, unless it is given back.
package final class FeedbackLists: Sendable {
  private let lists: Mutex<[String: [Faults.FeedbackEntry]]>
  /// What apps without rules of their own find at their first read.
  private let common: [Faults.FeedbackEntry]

  init(_ rules: FaultRules) {
    lists = Mutex(rules.apps.mapValues(\.feedback))
    common = rules.common.feedback
  }

  package func append(_ entry: Faults.FeedbackEntry, topic: String) {
    lists.withLock { $0[topic, default: common].append(entry) }
  }

  /// Takes the first tuples away, at most `limit`.
  package func take(_ limit: Int, topic: String) -> [Faults.FeedbackEntry] {
    lists.withLock { lists in
      let list = lists[topic, default: common]
      lists[topic] = Array(list.dropFirst(limit))
      return Array(list.prefix(limit))
    }
  }

  /// Puts back what could not be handed out.
  package func giveBack(_ entries: [Faults.FeedbackEntry], topic: String) {
    lists.withLock { $0[topic, default: []].insert(contentsOf: entries, at: 0) }
  }

  package func waiting(topic: String) -> [Faults.FeedbackEntry] {
    lists.withLock { $0[topic, default: common] }
  }
}
