/// Runs what `carillon send` has prepared, and shows how it goes.
struct SendRun {
  let plan: SendPlan
  let prepared: PreparedSend

  func run() async throws {
    throw CommandFailure.couldNotRun("Sending is not connected to the engine yet")
  }
}
