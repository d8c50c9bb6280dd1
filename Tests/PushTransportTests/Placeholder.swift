internal import Testing
@Test func placeholderPushTransportTests() {}
