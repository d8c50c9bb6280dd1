extension String {
  /// With a full stop at its end, unless it has one.
  package var asSentence: String {
    guard let last, !".?!".contains(last) else { return self }
    return self + "."
  }

  /// As it can be pasted into a shell.
  package var asShellWord: String {
    let isPlain =
      !isEmpty
      && utf8.allSatisfy {
        UInt8(ascii: "a")...UInt8(ascii: "z") ~= $0 | 0x20 || "0123456789/._-+=:,@%".utf8.contains($0)
      }
    return isPlain ? self : "'" + replacing("'", with: "'\\''") + "'"
  }
}
