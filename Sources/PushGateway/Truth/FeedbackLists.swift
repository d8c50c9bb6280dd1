package import PushWire
internal import Synchronization

/// What the feedback service has to tell each app, oldest first. Reading clears: a tuple is handed out once, unless it is given back.
package final class FeedbackLists: Sendable {
  private let lists: Mutex<[String: [FeedbackTuple]]>
  /// What apps without rules of their own find at their first read.
  private let common: [FeedbackTuple]

  init(_ rules: FaultRules) {
    lists = Mutex(rules.apps.mapValues(\.feedback))
    common = rules.common.feedback
  }

  package func append(_ tuple: FeedbackTuple, topic: String) {
    lists.withLock { $0[topic, default: common].append(tuple) }
  }

  /// Takes the first tuples away, at most `limit`.
  package func take(_ limit: Int, topic: String) -> [FeedbackTuple] {
    lists.withLock { lists in
      let list = lists[topic, default: common]
      lists[topic] = Array(list.dropFirst(limit))
      return Array(list.prefix(limit))
    }
  }

  /// Puts back what could not be handed out.
  package func giveBack(_ tuples: [FeedbackTuple], topic: String) {
    lists.withLock { $0[topic, default: []].insert(contentsOf: tuples, at: 0) }
  }

  package func waiting(topic: String) -> [FeedbackTuple] {
    lists.withLock { $0[topic, default: common] }
  }
}
