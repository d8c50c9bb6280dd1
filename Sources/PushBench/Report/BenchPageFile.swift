package import Carillon
internal import Foundation

/// The file of the page. It is opened before anything is measured, so that a path that cannot be
/// written is an early error.
package struct BenchPageFile {
  private let path: String
  private let file: FileHandle

  package init(path: String) throws(CarillonError) {
    self.path = path
    guard FileManager.default.createFile(atPath: path, contents: nil), let file = FileHandle(forWritingAtPath: path)
    else { throw CarillonError(.list, "\(path) cannot be written") }
    self.file = file
  }

  package func write(_ text: String) throws(CarillonError) {
    do {
      try file.write(contentsOf: Data(text.utf8))
      try file.close()
    } catch { throw CarillonError(.output, "\(path) cannot be written: \(error.localizedDescription)") }
  }
}
