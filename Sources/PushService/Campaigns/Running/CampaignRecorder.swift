internal import Carillon
internal import PushEngine
internal import PushSend
internal import PushStore
internal import Synchronization

/// Makes durable, before the journal's next commit, what campaigns have written: their lists of
/// outcomes and their final accounts.
package final class CampaignRecorder: Sendable {
  private struct State {
    var lists: [String: OutcomesFile] = [:]
    var ended: [EndedCampaignPart] = []
  }

  private let store: any Store
  private let state = Mutex(State())

  init(store: any Store) { self.store = store }

  /// - Parameter name: of the part.
  func opened(_ list: OutcomesFile, of name: String) { state.withLock { $0.lists[name] = list } }

  func ended(_ part: EndedCampaignPart) { state.withLock { $0.ended.append(part) } }

  /// The list of a part that has ended needs no more syncing.
  func close(_ name: String) throws(UnsyncedList) {
    guard let list = state.withLock({ $0.lists.removeValue(forKey: name) }) else { return }
    _ = list.finish()
    try list.sync()
  }

  /// Those who read the list of a part see everything up to now.
  package func flush(_ name: String) { _ = state.withLock { $0.lists[name] }?.finish() }

  /// They are files of this machine.
  func syncLists() throws(UnsyncedList) {
    for list in state.withLock({ Array($0.lists.values) }) { try list.sync() }
  }

  func makeDurable() throws(UnsyncedList) {
    let ended = state.withLock { state in exchange(&state.ended, with: []) }
    do throws(UnsyncedList) { try syncLists() } catch {
      state.withLock { $0.ended.insert(contentsOf: ended, at: 0) }
      throw error
    }
    guard !ended.isEmpty else { return }
    do throws(StoreError) { try store.end(ended) } catch {
      if error.kind == .away { state.withLock { $0.ended.insert(contentsOf: ended, at: 0) } }
      throw UnsyncedList(error)
    }
  }
}
