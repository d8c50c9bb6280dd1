package import PushEngine

extension PayloadTemplate {
  /// Reads a payload, with placeholders or without, from a file.
  package static func read(file: String) throws(CarillonError) -> PayloadTemplate {
    do {
      return try PayloadTemplate(parsing: TextFile.read(file))
    } catch let error as ConfigurationError {
      throw CarillonError(.payload, error.description)
    } catch {
      throw CarillonError(.payload, "\(file), \(error)")
    }
  }
}
