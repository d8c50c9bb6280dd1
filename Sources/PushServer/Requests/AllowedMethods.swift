internal import Hummingbird

/// Which methods an address has: for 405 and `OPTIONS`.
struct AllowedMethods: Sendable {
  private struct Address: Sendable {
    let components: [RouterPath.Element]
    /// More of it is literal text: the router prefers it.
    let precision: [Int]
    var methods: Set<String>
  }

  private let addresses: [Address]

  init(_ router: Router<ControlContext>) {
    var addresses: [String: Address] = [:]
    for route in router.routes {
      let components = route.path.components
      addresses[
        "\(route.path)",
        default: Address(components: components, precision: components.map(Self.precision), methods: [])
      ].methods.insert(route.method.rawValue)
    }
    self.addresses = addresses.values.sorted { $1.precision.lexicographicallyPrecedes($0.precision) }
  }

  private static func precision(of component: RouterPath.Element) -> Int {
    let text = component.description
    return !text.contains("{") ? 2 : text.hasPrefix("{") && text.hasSuffix("}") ? 0 : 1
  }

  func methods(for path: String) -> [String]? {
    let parts = path.split(separator: "/")
    let address = addresses.first { address in
      address.components.count == parts.count && zip(address.components, parts).allSatisfy { $0 ~= $1 }
    }
    guard var methods = address?.methods else { return nil }
    methods.insert("OPTIONS")
    if methods.contains("GET") { methods.insert("HEAD") }
    return methods.sorted()
  }
}
