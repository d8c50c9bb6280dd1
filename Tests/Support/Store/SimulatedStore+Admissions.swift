package import PushStore

extension SimulatedStore {
  package func notAdmitted(_ request: AdmissionRequest) async throws(StoreError) -> Set<[UInt8]> {
    try await call { $0.admit(request) }
  }

  package func forgetAdmissions(of member: [UInt8], app: String) async throws(StoreError) {
    try await call { $0.admissions[app]?[member] = nil }
  }

  package func forgetAdmissions(before instant: StoreInstant) async throws(StoreError) {
    try await call { contents in
      contents.admissions = contents.admissions.mapValues {
        $0.filter { $0.value.lastAt.endOfDay >= instant }
      }
    }
  }
}

extension StoreContents {
  /// - Returns: those who are not admitted.
  @discardableResult
  package mutating func admit(_ request: AdmissionRequest) -> Set<[UInt8]> {
    var refused: Set<[UInt8]> = []
    for member in request.members {
      var known = admissions[request.app]?[member] ?? Admissions()
      guard known.admit(request) else {
        refused.insert(member)
        continue
      }
      if !request.isTrial { admissions[request.app, default: [:]][member] = known }
    }
    return refused
  }
}
