internal import COpenSSL
internal import Glibc

/// The memory of a process, which has private keys in it.
package enum ProcessMemory {
  /// Keeps other processes of the same user from reading the memory, as a debugger does, and the
  /// system from writing it to a core file.
  ///
  /// - Returns: false if the system does not allow it.
  @discardableResult
  package static func hide() -> Bool {
    var none = rlimit(rlim_cur: 0, rlim_max: 0)
    let hasNoCore = unsafe setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none) == 0
    return carillon_hide_memory() == 0 && hasNoCore
  }
}
