internal import Foundation
internal import GRDB
internal import Glibc
internal import HTTPTypes
internal import PushStore
internal import PushWire
internal import Support
internal import Testing

@testable internal import PushServer
@testable internal import PushService
@testable internal import PushStoreSQLite

/// What a service does that cannot start.
struct StartDecisionTests {
  @Test("a first start waits for a disk that is full or fails, and for nothing else; a later one always waits")
  func decisions() {
    for code in [ENOSPC, EDQUOT, EFBIG, EIO] {
      let disk = DiskState(code: code)
      #expect(disk == .waiting(code))
      for hasServed in [false, true] {
        guard case .wait(let reason) = StartDecision.after("it", hasServed: hasServed, disk: disk) else {
          Issue.record("\(code) ends the process")
          continue
        }
        #expect(reason.hasPrefix(DiskState.message(code)))
      }
    }
    for disk in [DiskState.writable, DiskState(code: EROFS), DiskState(code: EACCES), DiskState(code: ENOENT)] {
      #expect(StartDecision.after("it", hasServed: false, disk: disk) == .end, "\(disk)")
      #expect(StartDecision.after("it", hasServed: true, disk: disk) == .wait("it"), "\(disk)")
      #expect(StartDecision.after("it", isAway: true, hasServed: false, disk: disk) == .wait("it"), "\(disk)")
    }
  }

  @Test("failed starts and short runs double the pause up to a minute, until a run lasts a minute")
  func pauses() {
    var pause = RestartingDaemon.RestartPause()
    var seconds: [Int64] = []
    for _ in 0..<8 {
      seconds.append(pause.duration.components.seconds)
      pause.grow()
    }
    #expect(seconds == [1, 2, 4, 8, 16, 32, 60, 60])
    pause.adapt(toRun: .seconds(60))
    #expect(pause.duration == .seconds(1))
    pause.adapt(toRun: .seconds(59))
    #expect(pause.duration == .seconds(2))
  }

  @Test("why a service waits is logged when it changes, and once a minute")
  func reasons() {
    var log = RestartingDaemon.PacedReason()
    func isDue(_ reason: String, _ second: Int) -> Bool { log.isDue(reason, now: .start + .seconds(second)) }
    #expect((0..<150).filter { isDue("full", $0) } == [0, 60, 120])
    #expect((150..<220).filter { isDue("broken", $0) } == [150, 210])
  }

  @Test("a folder is looked at by writing, leaves nothing behind, and an error has its own name")
  func disks() async throws {
    let place = try Workplace()
    #expect(await DiskState.all([place.url.path]) == .writable)
    #expect(try FileManager.default.contentsOfDirectory(atPath: place.url.path).isEmpty)
    let missing = place.path("missing")
    #expect(DiskState.of(missing) == .refused(ENOENT))
    #expect(URL(filePath: DiskState.nearest(missing)).standardizedFileURL.path == place.url.standardizedFileURL.path)
    #expect(DiskState.waiting(EIO).reason("journal") == "journal cannot be written: Input/output error")
    let failed = StoreError(DatabaseError(resultCode: .SQLITE_IOERR_WRITE), path: "store.db")
    #expect(failed.kind == .unwritable)
    #expect(StoreError(DatabaseError(resultCode: .SQLITE_FULL), path: "store.db").kind == .full)
    #expect(Problem(failed).status.code == 507)
    #expect(Problem(failed).title == "Disk not writable")
  }
}
