internal import PushWire
internal import Testing

struct TerminalTextTests {
  @Test(
    "text that could move a cursor, end a line or change the writing direction is escaped, and no other",
    arguments: [
      ("", ""), ("com.example.news", "com.example.news"), ("Grüße, 新聞 📰", "Grüße, 新聞 📰"), ("a\\b", "a\\b"),
      ("\u{1B}[31mred\u{7}", "\\u{1b}[31mred\\u{7}"), ("a\r\nb\tc\0", "a\\u{d}\\u{a}b\\u{9}c\\u{0}"),
      ("\u{7F}\u{9B}2J", "\\u{7f}\\u{9b}2J"),
      ("a\u{202E}gpj", "a\\u{202e}gpj"), ("a\u{2028}b\u{200B}c\u{FEFF}", "a\\u{2028}b\\u{200b}c\\u{feff}"),
      ("e\u{301}", "e\u{301}"),
    ])
  func escaping(text: String, shown: String) {
    #expect(text.escapedForTerminal.unicodeScalars.elementsEqual(shown.unicodeScalars), "\(text.escapedForTerminal)")
  }

  @Test("a long text is cut before it is escaped, also inside a character of many scalars")
  func cutting() {
    #expect("abc".escapedForTerminal(atMost: 3) == "abc")
    #expect("abcd".escapedForTerminal(atMost: 3) == "abc…")
    #expect("\u{1B}\u{1B}\u{1B}".escapedForTerminal(atMost: 2) == "\\u{1b}\\u{1b}…")
    #expect(("a" + String(repeating: "\u{301}", count: 1000)).escapedForTerminal(atMost: 64).unicodeScalars.count == 65)
  }

  @Test(
    "text with a layout keeps its lines; what a terminal would obey is escaped as in JSON",
    arguments: [
      ("", ""),
      ("dHN0 café 通知 👩‍💻\n\tnext", "dHN0 café 通知 👩‍💻\n\tnext"), ("\u{1B}]0;title\u{7}", "\\u001b]0;title\\u0007"),
      ("a\u{9B}2J\u{7F}", "a\\u009b2J\\u007f"), ("one\rtwo", "one\\u000dtwo"), ("\u{202E}gpj.exe", "\\u202egpj.exe"),
      ("a\u{2028}b", "a\\u2028b"),
    ])
  func laidOut(text: String, expected: String) {
    #expect(text.withControlsEscaped == expected)
  }
}
