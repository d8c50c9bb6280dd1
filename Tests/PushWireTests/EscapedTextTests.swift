internal import PushWire
internal import Testing

struct EscapedTextTests {
  @Test(
    "control characters, direction marks and line separators are escaped as JSON would, and nothing else is",
    arguments: [
      ("", ""), ("dHN0LXNyY2g= café 通知 👩‍💻", "dHN0LXNyY2g= café 通知 👩‍💻"),
      ("\u{1B}]0;title\u{7}", "\\u001b]0;title\\u0007"), ("a\u{9B}2J", "a\\u009b2J"), ("\u{7F}", "\\u007f"),
      ("one\r\ntwo\tthree", "one\\u000d\\u000atwo\\u0009three"), ("\u{202E}gpj.exe", "\\u202egpj.exe"), ("a\u{2028}b", "a\\u2028b"),
    ])
  func escaped(text: String, expected: String) {
    #expect(text.escapingControls() == expected)
  }

  @Test("text that is laid out keeps its line ends and tabs")
  func lines() {
    #expect("one\ttwo\nthree\r\u{1B}[K".escapingControls(keepsLines: true) == "one\ttwo\nthree\\u000d\\u001b[K")
  }
}
