internal import Foundation

/// Words that group the devices of an app.
package enum DeviceTag {
  package static let countLimit = 64
  package static let byteCountLimit = 64

  /// In lower case and in Unicode's form C, so that a tag is found however it was typed.
  ///
  /// - Throws: ``Problem`` without a place.
  package static func normalised(_ text: String) throws -> String {
    let tag = text.precomposedStringWithCanonicalMapping.lowercased()
    guard !tag.isEmpty, tag.utf8.count <= byteCountLimit else {
      throw Problem.malformed("A tag has from 1 to \(byteCountLimit) bytes.")
    }
    let isUsable = tag.unicodeScalars.allSatisfy { scalar in
      !scalar.properties.isWhitespace && scalar != "," && scalar != "\""
        && ![.control, .format, .unassigned, .privateUse, .surrogate].contains(scalar.properties.generalCategory)
    }
    guard isUsable else {
      throw Problem.malformed("A tag has no spaces, commas, quotation marks or control characters.")
    }
    return tag
  }

  package static func normalised(_ tags: [String]) throws -> Set<String> {
    var found: Set<String> = []
    for tag in tags {
      found.insert(try normalised(tag))
      guard found.count <= countLimit else { throw Problem.malformed("A device has at most \(countLimit) tags.") }
    }
    return found
  }
}
