package import PushWire
internal import Synchronization

/// The tuples that the feedback service has for each app, oldest first. Reading clears: a tuple is
/// delivered once, unless it is put back.
package final class FeedbackLists: Sendable {
  private let lists: Mutex<[String: [FeedbackTuple]]>
  /// The tuples that an app without rules of its own finds at its first read.
  private let common: [FeedbackTuple]

  init(_ rules: FaultRules) {
    lists = Mutex(rules.apps.mapValues(\.feedback))
    common = rules.common.feedback
  }

  package func append(_ tuple: FeedbackTuple, topic: String) {
    lists.withLock { $0[topic, default: common].append(tuple) }
  }

  /// Removes and returns the first tuples, at most `limit`.
  package func take(_ limit: Int, topic: String) -> [FeedbackTuple] {
    lists.withLock { lists in
      let list = lists[topic, default: common]
      lists[topic] = Array(list.dropFirst(limit))
      return Array(list.prefix(limit))
    }
  }

  /// Puts back tuples that could not be delivered.
  package func giveBack(_ tuples: [FeedbackTuple], topic: String) {
    lists.withLock { $0[topic, default: []].insert(contentsOf: tuples, at: 0) }
  }

  package func waiting(topic: String) -> [FeedbackTuple] { lists.withLock { $0[topic, default: common] } }
}
