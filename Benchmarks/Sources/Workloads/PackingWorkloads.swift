internal import PushTransport
internal import PushWire

extension Workload {
  /// From the ring into batches of 64 KiB.
  static let packing = [
    pack("Pack.shared", ownPayload: []),
    pack("Pack.ownPayload", ownPayload: Samples.payload),
  ]

  private static let notificationCount = 16_384

  private static func pack(_ name: String, ownPayload: [UInt8]) -> Workload {
    Workload(name, notificationCount, "frames") {
      let ring = NotificationRing(blockCount: 1 << 17)
      let (tokens, payload) = (RawMemory(Samples.tokens(notificationCount)), RawMemory(ownPayload))
      let size = RingRecord.blockCount(tokenByteCount: 32, payloadByteCount: ownPayload.count)
      for index in 0..<notificationCount {
        guard var claim = ring.claim(minimum: size, maximum: size) else {
          throw WorkloadFailure(description: "the ring is full")
        }
        _ = unsafe claim.append(
          RingRecord.Header(ordinal: UInt64(index), campaign: 1), token: tokens.piece(index * 32, 32),
          payload: payload.readable)
      }
      let frames = CampaignFrames(
        campaign: 1, command: .framed, payload: Samples.payload, expiration: 1_900_000_000, priority: 10)
      var packer = FramePacker(byteCountBound: 64 * 1024, buffers: LoopBuffers())
      return Iteration {
        var (from, count) = (ring.settled, 0)
        packer.clear()
        while let run = packer.pack(from: from, to: ring.published, ring: ring, frames: frames, now: 1_700_000_000) {
          from = run.end
          count += run.count
          packer.clear()
        }
        try WorkloadFailure.check(count == notificationCount, "\(count) frames were packed, not \(notificationCount)")
      }
    }
  }
}
