internal import Testing
@Test func placeholderPushServerTests() {}
