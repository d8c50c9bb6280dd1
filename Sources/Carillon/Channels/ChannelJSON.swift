/// Channels for machines.
package enum ChannelJSON {
  package static func text(_ channel: String, stores storage: ChannelService.Storage) -> String {
    text(channel) { $0.field("store", storage == .none ? "none" : "last") }
  }

  package static func text(deleted channel: String) -> String { text(channel) { $0.field("deleted", true) } }

  package static func text(_ channels: [String]) -> String {
    var json = JSONWriter()
    json.object { $0.field("channels", channels) }
    return json.text
  }

  private static func text(_ channel: String, _ more: (inout JSONWriter) -> Void) -> String {
    var json = JSONWriter()
    json.object {
      $0.field("channel", channel)
      more(&$0)
    }
    return json.text
  }
}
