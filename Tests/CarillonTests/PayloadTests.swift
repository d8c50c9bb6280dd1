internal import Carillon
internal import Foundation
internal import Testing

/// What payloads become on the wire.
@Suite struct PayloadTests {
  private static func text(_ payload: PushPayload) -> String { String(decoding: payload.json, as: UTF8.self) }

  @Test("the short form of an alert, and the long one")
  func alerts() {
    #expect(Self.text(PushPayload(alert: "Hello")) == #"{"aps":{"alert":"Hello"}}"#)
    var alert = PushPayload.Alert(title: "T", body: "B")
    alert.bodyLocalization = .init(key: "KEY", arguments: ["a", "b"])
    #expect(
      Self.text(PushPayload(alert: alert))
        == #"{"aps":{"alert":{"title":"T","body":"B","loc-key":"KEY","loc-args":["a","b"]}}}"#)
  }

  @Test("a plain alert is as in Apple's examples")
  func plain() {
    var payload = PushPayload(alert: "Bob says \"hi\"", badge: 9, sound: "bingbong.aiff")
    payload.custom = ["acme1": "bar", "acme2": ["bang", 42]]
    #expect(
      Self.text(payload)
        == #"{"aps":{"alert":"Bob says \"hi\"","badge":9,"sound":"bingbong.aiff"},"acme1":"bar","acme2":["bang",42]}"#)
    #expect(Self.text(PushPayload()) == #"{"aps":{}}"#, "keys without a value are not written")
  }

  @Test("every key of an alert is written under its name, in one order")
  func everyAlertKey() {
    var alert = PushPayload.Alert(title: "T", subtitle: "S", body: "B")
    alert.titleLocalization = .init(key: "TK", arguments: ["1"])
    alert.subtitleLocalization = .init(key: "SK", arguments: ["2"])
    alert.bodyLocalization = .init(key: "K")
    alert.launchImage = "L"
    #expect(
      Self.text(PushPayload(alert: alert, badge: 0))
        == #"{"aps":{"alert":{"title":"T","subtitle":"S","body":"B","title-loc-key":"TK","title-loc-args":["1"],"#
        + #""subtitle-loc-key":"SK","subtitle-loc-args":["2"],"loc-key":"K","launch-image":"L"},"badge":0}}"#)
  }

  @Test("sounds: a name, and a critical one")
  func sounds() {
    #expect(Self.text(PushPayload(sound: .default)) == #"{"aps":{"sound":"default"}}"#)
    let critical = PushPayload.Sound(name: "alarm.caf", isCritical: true, volume: 0.5)
    #expect(
      Self.text(PushPayload(sound: critical)) == #"{"aps":{"sound":{"critical":1,"name":"alarm.caf","volume":0.5}}}"#)
  }

  @Test("custom keys in the order of their bytes, whatever was set first; aps is not one of them")
  func customKeys() {
    var payload = PushPayload(badge: 3)
    payload.custom["z"] = ["deep": [1, 2.5, true, nil], "a": "x"]
    payload.custom["order"] = 4711
    payload.custom["aps"] = "ignored"
    #expect(Self.text(payload) == #"{"aps":{"badge":3},"order":4711,"z":{"a":"x","deep":[1,2.5,true,null]}}"#)
  }

  @Test("a Live Activity")
  func liveActivity() {
    var payload = PushPayload()
    payload.relevanceScore = 75
    var activity = PushPayload.LiveActivity(
      .start, timestamp: Date(timeIntervalSince1970: 1_700_000_000.9), contentState: ["score": 3])
    activity.attributesType = "Match"
    activity.attributes = ["home": "A"]
    activity.staleDate = Date(timeIntervalSince1970: 1_700_000_100)
    activity.dismissalDate = Date(timeIntervalSince1970: 1_700_000_200)
    payload.liveActivity = activity
    #expect(
      Self.text(payload)
        == #"{"aps":{"relevance-score":75.0,"stale-date":1700000100,"content-state":{"score":3},"#
        + #""timestamp":1700000000,"event":"start","dismissal-date":1700000200,"#
        + #""attributes-type":"Match","attributes":{"home":"A"}}}"#)
  }

  @Test("everything else that aps knows")
  func flags() {
    var payload = PushPayload()
    payload.isContentAvailable = true
    payload.isMutableContent = true
    payload.category = "c"
    payload.threadID = "t"
    payload.targetContentID = "w"
    payload.interruptionLevel = .timeSensitive
    payload.filterCriteria = "f"
    #expect(
      Self.text(payload)
        == #"{"aps":{"content-available":1,"mutable-content":1,"category":"c","thread-id":"t","target-content-id":"w","#
        + #""interruption-level":"time-sensitive","filter-criteria":"f"}}"#)
  }

  @Test("device tokens: digits of either case, and what is no token", arguments: ["", "0", "zz", "0a 1"])
  func badTokens(text: String) throws {
    #expect(throws: CarillonError.self) { try DeviceToken(hex: text) }
    let token = try DeviceToken(hex: "<0A1b 2c>")
    #expect(token.hex == "0a1b2c")
    #expect(token.bytes == [0x0a, 0x1b, 0x2c])
    #expect(try DeviceToken(bytes: [0x0a, 0x1b, 0x2c]) == token)
    #expect(throws: CarillonError.self) { try DeviceToken(bytes: []) }
  }

  @Test("accounts add up, whatever is in them")
  func accounts() {
    var account = CampaignAccount()
    account.submitted = 20
    account.confirmed = 5
    account.quiet = 4
    account.rejectedByReason = ["8 invalid token": 3]
    account.unknown = 2
    account.held = 1
    #expect(account.accepted == 9)
    #expect(account.inFlight == 5)
    #expect(account.submitted == account.accepted + account.rejected + account.others + account.inFlight)
  }
}
