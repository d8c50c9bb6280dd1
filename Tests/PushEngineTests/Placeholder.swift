internal import Testing

@Test func placeholderPushEngineTests() {}
